package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/process"
)

// stdinGrace is how long a server may take to end once its standard input
// is closed, which is how MCP asks for the end, before SIGTERM.
const stdinGrace = 250 * time.Millisecond

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
	stderr, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	started, err := startPipe(p.spec, to, p.limit)
	_ = to.Close() // the process has its own
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", errors.Join(err, stderr.Close()))
	}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		logLines(stderr, p.log)
	}()
	// Why it ended mostly stands in its standard error, so that is logged first.
	go started.reap(stdinGrace, p.grace, func() {
		_ = stderr.SetReadDeadline(time.Now().Add(lastWords))
		<-logged
	})
	p.conn = &pipeConn{pipes: p, pipe: started}
	return p.conn, nil
}

// pipeConn is a running server.
type pipeConn struct {
	*pipes
	*pipe

	queue []jsonrpc.Message // rest of a batch
	noise int               // lines that were no messages
}

// SessionID implements mcp.Connection: stdio has none.
func (c *pipeConn) SessionID() string { return "" }

// Close asks for the end and does not wait for it: the SDK calls it with a lock
// held that calls need. gone tells when the process has ended.
func (c *pipeConn) Close() error {
	c.End()
	_ = c.out.SetReadDeadline(time.Now()) // what is given up is not read
	return nil
}
