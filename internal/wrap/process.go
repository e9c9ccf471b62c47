package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/backend/process"
)

const (
	// stdinGrace is how long a server may take to end once its input is closed, termGrace after
	// SIGTERM.
	stdinGrace, termGrace = time.Second, time.Second
	// lastWords is how long output is still read after the process has ended.
	lastWords = 200 * time.Millisecond
	// pipeBuffer is as much as a pipe holds.
	pipeBuffer = 64 << 10
)

// Process returns what starts a server that is a process, with the environment and the directory of
// its spec. What it writes to its standard error goes where that of this process does.
func Process(spec process.Spec) func(mcptool.Listener) (Link, error) {
	return func(listener mcptool.Listener) (Link, error) {
		p, err := start(spec)
		if err != nil {
			return nil, err
		}
		p.listener = listener
		go p.reap()
		return p, nil
	}
}

// pipe is a running process.
type pipe struct {
	listener mcptool.Listener

	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *lines.Reader
	// writing is held by the one who writes.
	writing chan struct{}
	ending  sync.Once
	closing chan struct{}
	// gone is closed when the process has been waited for; reason is then set.
	gone   chan struct{}
	reason error
}

func start(spec process.Spec) (*pipe, error) {
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
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	err = process.Start(cmd)
	_, _ = stdin.Close(), stdout.Close() // the process has its own
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &pipe{
		cmd: cmd, in: in, out: out, lines: lines.New(out, MaxMessage, pipeBuffer),
		writing: make(chan struct{}, 1), closing: make(chan struct{}), gone: make(chan struct{}),
	}, nil
}

// End asks the process to end, as MCP does: its input is closed.
func (p *pipe) End() {
	p.ending.Do(func() {
		close(p.closing)
		_ = p.in.Close() // which is all that is wanted
	})
}

// Ending implements Link.
func (p *pipe) Ending() <-chan struct{} { return p.closing }

// reap waits for the process, ends it when it is asked to, and ends what it leaves behind.
func (p *pipe) reap() {
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	within := func(d time.Duration) (ended bool) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case p.reason = <-exited:
			return true
		case <-timer.C:
			return false
		}
	}
	select {
	case p.reason = <-exited:
	case <-p.closing:
		if !within(stdinGrace) {
			process.Terminate(p.cmd)
			if !within(termGrace) {
				process.Kill(p.cmd)
				p.reason = <-exited
			}
		}
	}
	process.Kill(p.cmd)
	process.End(p.cmd)
	if p.reason == nil {
		p.reason = errors.New("exit status 0")
	}
	p.reason = fmt.Errorf("the server process ended (%w)", p.reason)
	_ = p.out.SetReadDeadline(time.Now().Add(lastWords)) // whoever left the group may hold it open
	close(p.gone)
	p.End()
}

// Wait implements Link: it reads what the process says, until it has ended.
func (p *pipe) Wait() error {
	for {
		ln, err := p.lines.Next()
		if err != nil {
			break
		}
		text := bytes.TrimSpace(bytes.TrimPrefix(ln.Text, []byte("\ufeff")))
		switch {
		case ln.Giant:
			p.listener.Giant(ln)
		case len(text) > 0:
			for _, one := range unbatch(text) {
				p.listener.Hear(one)
			}
		}
	}
	_ = p.out.Close() // it has been read
	p.End()           // who has closed its output will not be heard any more
	<-p.gone
	return p.reason
}

// errWithheld is that the right to send was gone.
var errWithheld = errors.New("the right to send the call is gone")

// Send implements Link. Without its end a message is no JSON.
func (p *pipe) Send(ctx context.Context, text []byte, right backend.Right) (sent bool, err error) {
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-p.closing:
		return false, errEnded
	}
	defer func() { <-p.writing }()
	_ = p.in.SetWriteDeadline(time.Time{})
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.in.SetWriteDeadline(time.Unix(1, 0))
		close(expired)
	})
	defer func() {
		if !stop() {
			<-expired // or it would hit the next one
		}
	}()
	if right != nil && !right.Held() {
		return false, errWithheld
	}
	n, err := p.in.Write(append(slices.Clip(text), '\n'))
	if err != nil && n > 0 {
		p.End() // nothing can follow a part of a message
	}
	return n >= len(text), err
}
