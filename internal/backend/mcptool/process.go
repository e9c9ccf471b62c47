package mcptool

import (
	"bytes"
	"context"
	"os"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
)

// processGrace is how long a server of who passes on messages as they are may take to end once its
// input is closed, and again after SIGTERM.
const processGrace = time.Second

// Process speaks with a process for who passes on messages as they are, a line each. What it writes to
// its standard error goes where that of this process does.
type Process struct {
	*pipe

	listener Listener
}

// StartProcess starts a server, which answers in messages of at most limit bytes.
func StartProcess(spec process.Spec, limit int, listener Listener) (*Process, error) {
	started, err := startPipe(spec, os.Stderr, limit)
	if err != nil {
		return nil, err
	}
	p := &Process{started, listener}
	go p.reap(processGrace, processGrace, func() {})
	return p, nil
}

// Wait reads what the process says, until it has ended, and returns why.
func (p *Process) Wait() error {
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
	return p.reason()
}

// Drain returns at once: all that came was heard when Wait returned.
func (p *Process) Drain() {}

// Send sends a message. right, if not nil, is asked for right before the first byte. sent says that it
// may have left whole: without its end it is no JSON.
func (p *Process) Send(ctx context.Context, message []byte, right backend.Right) (sent bool, err error) {
	n, err := p.write(ctx, append(slices.Clip(message), '\n'), func() bool { return right == nil || right.Held() })
	if err != nil && n > 0 {
		p.End() // nothing can follow a part of a message
	}
	return n >= len(message), err
}
