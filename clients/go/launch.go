package sidecall

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

const (
	// startTimeout is how long a sidecar has to answer, endTimeout to end: it lets calls
	// in flight end.
	startTimeout = time.Minute
	endTimeout   = 40 * time.Second
	// keptLines are the last lines of its log that an error quotes, maxLine bytes each.
	keptLines = 20
	maxLine   = 64 << 10
)

// Launch says how to start a sidecar.
type Launch struct {
	// Config is the path of its config file.
	Config string
	// Binary is the program. Default: what SIDECALL_BINARY names, else the one on the
	// PATH.
	Binary string
	// Env is added to the environment of this process.
	Env []string
	// Log is given each line of its log, on a goroutine of its own; nil drops them.
	Log func(line string)
}

// Start starts a sidecar of this process's own, on a unix socket that nobody else can
// open, and returns a client of it once it answers. It ends when the client is closed, and
// when this process ends, however it does. opts are those of Dial. It is for Unix.
func (l Launch) Start(ctx context.Context, opts ...grpc.DialOption) (*Client, error) {
	binary, err := exec.LookPath(cmp.Or(l.Binary, os.Getenv("SIDECALL_BINARY"), "sidecall"))
	if err != nil {
		return nil, fmt.Errorf("there is no sidecar to start: name one in Launch.Binary or SIDECALL_BINARY: %w", err)
	}
	dir, err := os.MkdirTemp("", "sidecall-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, gone: make(chan struct{})}
	target := "unix://" + filepath.Join(dir, "agent.sock")
	// Its life is bounded by its standard input: it ends in order, where a context would kill it.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "--config", l.Config, "--listen", target, "--until-eof") //nolint:gosec // the caller says what is to be started
	p.cmd.Env = append(os.Environ(), l.Env...)
	if err := p.start(l.Log); err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be started: %w", binary, err), os.RemoveAll(dir))
	}
	client, err := Dial(target, opts...)
	if err == nil {
		client.end = p.stop
		err = p.awaitReady(ctx, client.conn)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return client, nil
}

// process is a sidecar that was started here.
type process struct {
	cmd   *exec.Cmd
	dir   string // its own
	stdin io.Closer

	gone chan struct{} // closed when it has ended, and all that it said was read
	exit error         // once it is gone

	mu   sync.Mutex
	last []string // lines of its log
}

func (p *process) start(log func(string)) (err error) {
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the process
		defer close(p.gone)
		lines := bufio.NewReaderSize(stderr, maxLine)
		for {
			line, _, err := lines.ReadLine() // what is longer comes in parts
			if err != nil {
				break
			}
			p.heard(string(line), log)
		}
		p.exit = p.cmd.Wait()
	}()
	return nil
}

func (p *process) heard(line string, log func(string)) {
	p.mu.Lock()
	p.last = append(p.last, line)
	p.last = p.last[max(0, len(p.last)-keptLines):]
	p.mu.Unlock()
	if log != nil {
		log(line)
	}
}

// awaitReady waits until the sidecar answers, or has ended.
func (p *process) awaitReady(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the sidecar does not answer after %v", startTimeout))
	defer cancel()
	ended := errors.New("the sidecar has ended")
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() { // ends with the process, or with this function
		select {
		case <-p.gone:
			fail(ended)
		case <-ctx.Done():
		}
	}()
	for {
		conn.Connect()
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if state == connectivity.TransientFailure {
			conn.ResetConnectBackoff() // it is about to listen
		}
		if !conn.WaitForStateChange(ctx, state) {
			cause := context.Cause(ctx)
			if errors.Is(cause, ended) && p.exit != nil {
				cause = fmt.Errorf("%w: %w", ended, p.exit)
			}
			return fmt.Errorf("%w\n%s", cause, p.said())
		}
	}
}

// said is the end of its log.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// stop lets the sidecar finish what it has begun, and ends it.
func (p *process) stop() error {
	_ = p.stdin.Close() // it may be gone already
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.gone
	}
	return os.RemoveAll(p.dir)
}
