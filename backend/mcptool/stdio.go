package mcptool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/backend/process"
)

const (
	// stdinGrace is how long a server may take to end once its standard input
	// is closed, which is how MCP asks for the end, before SIGTERM.
	stdinGrace = 250 * time.Millisecond
	// lastWords is how long output is still read after the process has ended.
	lastWords = 200 * time.Millisecond
	// writeTimeout bounds a write that has no deadline of its own (an answer
	// to a request of the server).
	writeTimeout = 10 * time.Second
	// pipeBuffer is as much as a pipe holds.
	pipeBuffer = 64 << 10
	// noiseShown is how much of the first line that is no message is logged.
	noiseShown = 200
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
	watch watcher

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
				f.Close()
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
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	for _, f := range child {
		f.Close()
	}
	c := &pipeConn{
		pipes:   p,
		cmd:     cmd,
		in:      parent[0],
		out:     parent[1],
		lines:   newLineReader(parent[1], p.limit, pipeBuffer),
		writing: make(chan struct{}, 1),
		pending: make(map[jsonrpc.ID]*capture),
		closing: make(chan struct{}),
		gone:    make(chan struct{}),
	}
	stderr := parent[2]
	go logLines(stderr, p.log)
	go c.reap(stderr)
	p.conn = c
	return c, nil
}

// pipeConn is a running server.
type pipeConn struct {
	*pipes
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *lineReader
	queue []jsonrpc.Message // rest of a batch

	// writing is held by the one who writes.
	writing chan struct{}

	mu      sync.Mutex
	pending map[jsonrpc.ID]*capture

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
// what it leaves behind.
func (c *pipeConn) reap(stderr *os.File) {
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
	// Whoever left the group may hold the pipes open for ever.
	deadline := time.Now().Add(lastWords)
	_ = stderr.SetReadDeadline(deadline)
	select {
	case <-c.closing: // reading has stopped already
	default:
		_ = c.out.SetReadDeadline(deadline)
	}
	close(c.gone)
}

// reason says how the process ended; only after gone.
func (c *pipeConn) reason() error {
	if c.exit == nil {
		return errors.New("the server process ended (exit status 0)")
	}
	return fmt.Errorf("the server process ended (%w)", c.exit)
}

// Read implements mcp.Connection. It returns io.EOF at the end of the process,
// however it ended; reason knows more.
func (c *pipeConn) Read(context.Context) (jsonrpc.Message, error) {
	for len(c.queue) == 0 {
		ln, err := c.lines.next()
		if err != nil {
			_ = c.out.Close()
			return nil, io.EOF
		}
		c.queue = c.decode(ln)
	}
	msg := c.queue[0]
	c.queue = c.queue[1:]
	c.watch.heard()
	return msg, nil
}

// decode returns the messages of a line; none for noise.
func (c *pipeConn) decode(ln line) []jsonrpc.Message {
	if ln.giant {
		return c.giant(ln)
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(ln.text, []byte("\ufeff")))
	if len(text) == 0 {
		return nil
	}
	var msgs []jsonrpc.Message
	for _, data := range unbatch(text) {
		msg, err := jsonrpc.DecodeMessage(data)
		if i := bytes.Index(data, []byte(`{"jsonrpc"`)); err != nil && i > 0 {
			// A message behind a print without a newline.
			msg, err = jsonrpc.DecodeMessage(data[i:])
		}
		if err != nil {
			c.noisy(ln.size, data)
			continue
		}
		if msg = c.accept(msg, ln.size); msg != nil {
			msgs = append(msgs, msg)
		}
	}
	return msgs
}

// accept hands a response to its capture; nil when the SDK need not see it.
func (c *pipeConn) accept(msg jsonrpc.Message, size int64) jsonrpc.Message {
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		if !wanted(msg, c.watch) {
			return nil
		}
	case *jsonrpc.Response:
		if cp := c.take(msg.ID); cp != nil {
			return cp.settleResponse(msg, size)
		}
	}
	return msg
}

// giant answers the request that a line answers which is too long to be read.
func (c *pipeConn) giant(ln line) []jsonrpc.Message {
	id, ok := identify(ln.text, ln.tail)
	if !ok {
		c.noisy(ln.size, ln.text)
		return nil
	}
	cp := c.take(id)
	if cp == nil {
		c.noisy(ln.size, ln.text)
		return []jsonrpc.Message{&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
			Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the answer has %d bytes, more than is read", ln.size)}}}
	}
	cp.settle(answer{outcome: tooLarge, size: ln.size})
	return []jsonrpc.Message{stub(id)}
}

// noisy logs the first line that is no message.
func (c *pipeConn) noisy(size int64, text []byte) {
	c.noise++
	if c.noise == 1 {
		c.log.Warn("the MCP server prints to its standard output what is no message; such lines are dropped",
			"bytes", size, "line", string(text[:min(len(text), noiseShown)]))
	}
}

func (c *pipeConn) take(id jsonrpc.ID) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	cp := c.pending[id]
	delete(c.pending, id)
	return cp
}

// Write implements mcp.Connection. A message that could not be written whole
// breaks the connection, since nothing can follow half a message.
func (c *pipeConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data := append(encode(msg), '\n')
	var cp *capture
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if cp = captureOf(ctx, req.Method); cp != nil {
			c.mu.Lock()
			c.pending[req.ID] = cp
			c.mu.Unlock()
			cp.sending(req.ID, func() { c.take(req.ID) })
		}
	}
	n, err := c.write(ctx, data)
	if err == nil {
		return nil
	}
	if cp != nil {
		// Without its end a message is no JSON: nobody can have acted on it.
		cp.failed(err, n < len(data)-1)
	}
	if n > 0 {
		_ = c.Close() // never fails
	}
	return fmt.Errorf("writing to the server: %w", err)
}

func (c *pipeConn) write(ctx context.Context, data []byte) (int, error) {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-c.closing:
		return 0, os.ErrClosed
	}
	defer func() { <-c.writing }()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// A pipe takes 64 KiB at once; what is larger waits for the server to read,
	// as long as the call may. Where files have no deadlines the restart of a
	// server that hangs ends it.
	var deadline time.Time
	if _, ok := ctx.Deadline(); !ok {
		deadline = time.Now().Add(writeTimeout)
	}
	_ = c.in.SetWriteDeadline(deadline)
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.in.SetWriteDeadline(time.Unix(1, 0))
		close(expired)
	})
	defer func() {
		if !stop() {
			<-expired // or it would hit the next write
		}
	}()
	n, err := c.in.Write(data)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return n, err
}
