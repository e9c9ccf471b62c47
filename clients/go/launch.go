package sidecall

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

const (
	// startTimeout is how long a sidecar has to be ready, startGrace how much longer to
	// say that it is not, and endTimeout how long to end: it lets calls in flight end.
	startTimeout = time.Minute
	startGrace   = 5 * time.Second
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
	// StartTimeout bounds how long the sidecar of an earlier process, whose last calls
	// end, and backends that find their tools by themselves are waited for; 0 means a
	// minute.
	StartTimeout time.Duration
}

// Start starts a sidecar of this program's own, on a unix socket that nobody else can
// open, and returns a client of it once it is ready. It ends when the client is closed, and
// when this process ends, however it does. Processes that launch one with the same config
// on one embedded store share one, which serves until the last of them has gone. When its
// time is over and backends have not been found, a warning of slog names them. opts are
// those of Dial. It is for Unix.
func (l Launch) Start(ctx context.Context, opts ...grpc.DialOption) (*Client, error) {
	binary, err := exec.LookPath(cmp.Or(l.Binary, os.Getenv("SIDECALL_BINARY"), "sidecall"))
	if err != nil {
		return nil, fmt.Errorf("there is no sidecar to start: name one in Launch.Binary or SIDECALL_BINARY: %w", err)
	}
	timeout := cmp.Or(l.StartTimeout, startTimeout)
	p := &process{gone: make(chan struct{}), told: make(chan answer, 2), heard: make(chan struct{})}
	// Its life is bounded by its standard input: it ends in order, where a context would kill it.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, "serve", "--config", l.Config, "--launched", "--start-timeout", timeout.String()) //nolint:gosec // the caller says what is to be started
	p.cmd.Env = append(os.Environ(), l.Env...)
	if err := p.start(l.Log); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", binary, err)
	}
	told, err := p.awaitReady(ctx, timeout)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	for backend, why := range told.Missing {
		slog.WarnContext(ctx, "tools are missing: they are not listed until they are there; with optional: true the backend is not waited for",
			"backend", backend, "after", timeout, "why", why)
	}
	client, err := Dial(told.Listen, opts...)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	client.end, client.ended = p.stop, p.ended
	return client, nil
}

// answer is what a sidecar tells the program that has started it: where it serves, and
// which backends are missing; later perhaps that it goes on for others.
type answer struct {
	Listen  string            `json:"listen"`
	Missing map[string]string `json:"missing"`
	Stays   bool              `json:"stays"`
}

// process is a sidecar that was started here.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer

	told  chan answer
	heard chan struct{} // closed when it tells nothing more
	gone  chan struct{} // closed when it has ended, and all that it said was read
	exit  error         // once it is gone

	mu   sync.Mutex
	last []string // lines of its log
}

func (p *process) start(log func(string)) (err error) {
	apart(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the process, or when that goes on for others
		defer close(p.heard)
		for lines := bufio.NewReader(stdout); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var told answer
			if json.Unmarshal(line, &told) == nil && (told.Listen != "" || told.Stays) { // else a script around it has said it
				p.told <- told
			}
		}
	}()
	go func() { // ends with the process
		defer close(p.gone)
		lines := bufio.NewReaderSize(stderr, maxLine)
		for {
			line, _, err := lines.ReadLine() // what is longer comes in parts
			if err != nil {
				break
			}
			p.logged(string(line), log)
		}
		<-p.heard // Wait would close what is still to be read
		p.exit = p.cmd.Wait()
	}()
	return nil
}

func (p *process) logged(line string, log func(string)) {
	p.mu.Lock()
	p.last = append(p.last, line)
	p.last = p.last[max(0, len(p.last)-keptLines):]
	p.mu.Unlock()
	if log != nil {
		log(line)
	}
}

// awaitReady waits until the sidecar says where it serves, or has ended.
func (p *process) awaitReady(ctx context.Context, timeout time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout+startGrace, fmt.Errorf("the sidecar does not answer after %v", timeout))
	defer cancel()
	select {
	case told := <-p.told:
		return told, nil
	case <-p.gone:
		return answer{}, p.ended()
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w\n%s", context.Cause(ctx), p.said())
	}
}

// ended is how it has; nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.gone:
	default:
		return nil
	}
	if p.exit != nil {
		return fmt.Errorf("the sidecar has ended: %w\n%s", p.exit, p.said())
	}
	return fmt.Errorf("the sidecar has ended\n%s", p.said())
}

// said is the end of its log.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// stop lets the sidecar finish what it has begun, and ends it, unless others have launched
// it too.
func (p *process) stop() error {
	_ = p.stdin.Close() // it may be gone already
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	for {
		select {
		case told := <-p.told:
			if told.Stays {
				return nil
			}
		case <-p.gone:
			return nil
		case <-timer.C:
			_ = p.cmd.Process.Kill() // it may have ended just now
			<-p.gone
		}
	}
}
