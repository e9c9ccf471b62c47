package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/process"
)

const (
	// stdinGrace is how long a server may take to end once its standard input
	// is closed, which is how MCP asks for the end, before SIGTERM.
	stdinGrace = 250 * time.Millisecond
	// lastWords is how long output is still read after the process has ended.
	lastWords = 200 * time.Millisecond
	// pipeBuffer is as much as a pipe holds.
	pipeBuffer = 64 << 10
)

// pipes is the stdio transport: it starts a process and speaks with it in lines
// of JSON. It differs from the SDK's own in that it ends the whole process
// group, bounds lines and writes, survives noise on standard output, and feeds
// captures.
type pipes struct {
	spec  process.Spec
	grace time.Duration
	limit int
	log   *slog.Logger
	inbox *inbox

	conn *pipeConn // after Connect
}

// Connect starts the process.
func (p *pipes) Connect(context.Context) (mcp.Connection, error) {
	cmd, err := p.spec.Prepare()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	var child, parent [3]*os.File
	fail := func(err error) (mcp.Connection, error) {
		for _, f := range append(child[:], parent[:]...) {
			if f != nil {
				_ = f.Close() // nothing was written
			}
		}
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	for i := range child {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		child[i], parent[i] = w, r
		if i == 0 {
			child[i], parent[i] = r, w
		}
	}
	// Files, not writers: exec then copies nothing and Wait waits for the
	// process alone.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = child[0], child[1], child[2]
	if err := process.Start(cmd); err != nil {
		return fail(err)
	}
	for _, f := range child {
		_ = f.Close() // the process has its own
	}
	c := &pipeConn{
		pipes:   p,
		cmd:     cmd,
		in:      parent[0],
		out:     parent[1],
		lines:   lines.New(parent[1], p.limit, pipeBuffer),
		writing: make(chan struct{}, 1),
		closing: make(chan struct{}),
		gone:    make(chan struct{}),
	}
	stderr := parent[2]
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		logLines(stderr, p.log)
	}()
	go c.reap(stderr, logged)
	p.conn = c
	return c, nil
}

// pipeConn is a running server.
type pipeConn struct {
	*pipes
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *lines.Reader
	queue []jsonrpc.Message // rest of a batch

	// writing is held by the one who writes.
	writing chan struct{}

	noise     int // lines that were no messages
	closeOnce sync.Once
	closing   chan struct{}
	// gone is closed when the process has been waited for; exit is then set.
	gone chan struct{}
	exit error
}

// SessionID implements mcp.Connection: stdio has none.
func (c *pipeConn) SessionID() string { return "" }

// Close asks for the end and does not wait for it: the SDK calls it with a lock
// held that calls need. gone tells when the process has ended.
func (c *pipeConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		// Errors of files that are being given up mean nothing.
		_ = c.in.Close()
		_ = c.out.SetReadDeadline(time.Now())
	})
	return nil
}

// reap waits for the process, ends it when the connection is closed, and ends
// what it leaves behind. Why it ended mostly stands in its standard error, so that is
// logged before anybody hears of the end.
func (c *pipeConn) reap(stderr *os.File, logged <-chan struct{}) {
	exited := make(chan struct{})
	go func() {
		c.exit = c.cmd.Wait()
		close(exited)
	}()
	within := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-exited:
			return true
		case <-timer.C:
			return false
		}
	}
	select {
	case <-exited:
	case <-c.closing:
		if !within(stdinGrace) {
			process.Terminate(c.cmd)
			if !within(c.grace) {
				process.Kill(c.cmd)
				<-exited
			}
		}
	}
	process.Kill(c.cmd)
	process.End(c.cmd)
	// Whoever left the group, and was not found, may hold the pipes open for ever.
	deadline := time.Now().Add(lastWords)
	_ = stderr.SetReadDeadline(deadline)
	select {
	case <-c.closing: // reading has stopped already
	default:
		_ = c.out.SetReadDeadline(deadline)
	}
	<-logged
	close(c.gone)
}

// reason says how the process ended; only after gone.
func (c *pipeConn) reason() error {
	if c.exit == nil {
		return errors.New("the server process ended (exit status 0)")
	}
	return fmt.Errorf("the server process ended (%w)", c.exit)
}
