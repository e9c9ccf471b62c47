package mcptool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/process"
)

const (
	// lastWords is how long output is still read after the process has ended.
	lastWords = 200 * time.Millisecond
	// pipeBuffer is as much as a pipe holds.
	pipeBuffer = 64 << 10
	// noiseShown is how much of the first line that is no message is logged.
	noiseShown = 200
)

// pipe is a running process that lines are exchanged with.
type pipe struct {
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *lines.Reader

	// writing is held by the one who writes.
	writing chan struct{}
	ending  sync.Once
	closing chan struct{}
	// gone is closed when the process has been waited for; exit is then set.
	gone chan struct{}
	exit error
}

// startPipe starts a process, which writes to its standard error what is no message.
func startPipe(spec process.Spec, stderr *os.File, limit int) (*pipe, error) {
	cmd, err := spec.Prepare()
	if err != nil {
		return nil, err
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	// Files, not writers: exec then copies nothing and Wait waits for the process alone.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err = process.Start(cmd, nil)
	_, _ = stdin.Close(), stdout.Close() // the process has its own
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &pipe{
		cmd: cmd, in: in, out: out, lines: lines.New(out, limit, pipeBuffer),
		writing: make(chan struct{}, 1), closing: make(chan struct{}), gone: make(chan struct{}),
	}, nil
}

// End asks the process to end, as MCP does: its input is closed. gone tells when it has.
func (p *pipe) End() {
	p.ending.Do(func() {
		close(p.closing)
		_ = p.in.Close() // which is all that is wanted
	})
}

// Ending is closed when the end was asked for.
func (p *pipe) Ending() <-chan struct{} { return p.closing }

// reap waits for the process, ends it when it is asked to, first by the end of its input, then by
// SIGTERM, and ends what it leaves behind. last is done before anybody hears of the end.
func (p *pipe) reap(stdinGrace, grace time.Duration, last func()) {
	_, p.exit = process.Wait(p.cmd, p.closing, stdinGrace, grace)
	process.End(p.cmd)
	// Whoever left the group, and was not found, may hold the pipes open for ever.
	_ = p.out.SetReadDeadline(time.Now().Add(lastWords))
	last()
	close(p.gone)
}

// reason says how the process ended; only after gone.
func (p *pipe) reason() error {
	if p.exit == nil {
		return errors.New("the server process ended (exit status 0)")
	}
	return fmt.Errorf("the server process ended (%w)", p.exit)
}

// write writes a line, as long as ctx lasts. held is asked for the right to when its turn has come.
// A pipe takes 64 KiB at once; what is larger waits for the server to read. Where files have no
// deadlines the restart of a server that hangs ends it.
func (p *pipe) write(ctx context.Context, line []byte, held func() bool) (int, error) {
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.closing:
		return 0, os.ErrClosed
	}
	defer func() { <-p.writing }()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	_ = p.in.SetWriteDeadline(time.Time{})
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.in.SetWriteDeadline(time.Unix(1, 0))
		close(expired)
	})
	defer func() {
		if !stop() {
			<-expired // or it would hit the next write
		}
	}()
	if !held() {
		return 0, errWithheld
	}
	n, err := p.in.Write(line)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return n, err
}
