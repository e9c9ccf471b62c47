package mcptool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

// writeTimeout bounds a write that has no deadline of its own (an answer
// to a request of the server).
const writeTimeout = 10 * time.Second

// Read implements mcp.Connection. It returns io.EOF at the end of the process,
// however it ended; reason knows more.
func (c *pipeConn) Read(context.Context) (jsonrpc.Message, error) {
	for len(c.queue) == 0 {
		ln, err := c.lines.Next()
		if err != nil {
			_ = c.out.Close()
			return nil, io.EOF
		}
		c.queue = c.messages(ln)
	}
	msg := c.queue[0]
	c.queue = c.queue[1:]
	return msg, nil
}

// messages returns the messages of a line; none for noise.
func (c *pipeConn) messages(ln lines.Line) []jsonrpc.Message {
	if ln.Giant {
		if msg := c.inbox.giant(ln.Text, ln.Tail, ln.Size); msg != nil {
			return []jsonrpc.Message{msg}
		}
		c.noisy(ln.Size, ln.Text)
		return nil
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(ln.Text, []byte("\ufeff")))
	if len(text) == 0 {
		return nil
	}
	var msgs []jsonrpc.Message
	for _, data := range unbatch(text) {
		msg, err := decode(data)
		if i := bytes.Index(data, []byte(`{"jsonrpc"`)); err != nil && i > 0 {
			// A message behind a print without a newline.
			msg, err = decode(data[i:])
		}
		if err != nil {
			c.noisy(ln.Size, data)
			continue
		}
		if msg = c.inbox.accept(msg, ln.Size, 0); msg != nil { // one line was read before it is known whose it is
			msgs = append(msgs, msg)
		}
	}
	return msgs
}

// noisy logs the first line that is no message.
func (c *pipeConn) noisy(size int64, text []byte) {
	c.noise++
	if c.noise == 1 {
		c.log.Warn("the MCP server prints to its standard output what is no message; such lines are dropped",
			"bytes", size, "line", begun(string(text[:min(len(text), 2*noiseShown)]), noiseShown))
	}
}

// Write implements mcp.Connection. A message that could not be written whole
// breaks the connection, since nothing can follow half a message.
func (c *pipeConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if _, ok := msg.(*jsonrpc.Response); ok {
		defer c.inbox.answered()
	}
	data := append(encode(msg), '\n')
	var cp *capture
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if cp = captureOf(ctx); cp != nil {
			c.inbox.await(req.ID, cp)
		}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, writeTimeout)
		defer cancel()
	}
	n, err := c.write(ctx, data, func() bool { return cp == nil || cp.mayLeave() })
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
