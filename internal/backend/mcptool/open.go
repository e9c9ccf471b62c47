package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
)

// resumes is how often in a row the rest of a result stream is asked for that makes
// no progress. Each is a GET: none can start anything.
const resumes = 5

// exitWait is how long a process that closed its output may take to end before
// its exit status is given up on.
const exitWait = time.Second

// open connects, shakes hands and reads the tool list.
func (b *Backend) open(ctx context.Context) (*session, []tool.Discovered, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timing.Connect,
		fmt.Errorf("the server did not answer the handshake within %s", b.timing.Connect))
	defer cancel()
	s := newSession()
	s.hear = b.listening.tell
	transport := b.transport(s)
	options := &mcp.ClientOptions{
		Logger:         b.log,
		Capabilities:   b.offers(),
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.relisted()
			notify(s.changed)
		},
		// The inbox hears of these before the SDK, which asks only for what it has a function for.
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sidecall", Version: b.cfg.Version}, options)
	if len(b.cfg.HandsOn) > 0 {
		client.AddReceivingMiddleware(questioned(s))
	}
	if err := speaksTasks(client, s); err != nil {
		return nil, nil, err
	}
	version := settledProtocol
	if b.modern {
		version = newestProtocol
	}
	cs, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if p, ok := transport.(*pipes); ok {
		s.conn = p.conn
	}
	if err != nil {
		defer b.running.Go(s.end)
		// One that speaks, but not this handshake, gets the other one next time.
		b.modern = !b.modern && refusedHandshake(err)
		return nil, nil, openError(ctx, s, err)
	}
	s.client = cs
	b.running.Go(func() { s.wait(b.timing.Grace) })
	tools, err := b.discover(ctx, s)
	if err != nil {
		defer b.running.Go(s.end)
		return nil, nil, openError(ctx, s, fmt.Errorf("listing the tools: %w", err))
	}
	b.hearLog(ctx, s)
	s.since = time.Now()
	return s, tools, nil
}

// refusedHandshake reports whether the server answered the handshake with an
// error of its own. The SDK gives its own errors JSON-RPC codes too, from -32005
// (never sent, as far as it knows) to -32003.
func refusedHandshake(err error) bool {
	var refusal *jsonrpc.Error
	return errors.As(err, &refusal) && (refusal.Code < -32005 || refusal.Code > -32003)
}

// openError says why a session could not be opened, as well as is known.
func openError(ctx context.Context, s *session, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.conn != nil && (errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed)) {
		timer := time.NewTimer(exitWait)
		defer timer.Stop()
		select {
		case <-s.conn.gone:
			return s.conn.reason()
		case <-timer.C:
		}
	}
	return withoutURL(err)
}

// transport is the way to the server for one session.
func (b *Backend) transport(s *session) mcp.Transport {
	if b.cfg.URL == "" {
		return &pipes{
			spec:  process.Spec{Argv: b.cfg.Command, Dir: b.cfg.Dir, Env: b.cfg.Env, User: b.cfg.User},
			grace: b.timing.Grace,
			limit: b.cfg.MaxMessage,
			log:   b.log,
			inbox: s.inbox,
		}
	}
	w := &wire{
		base:       b.cfg.HTTPClient.Transport,
		headers:    b.cfg.Headers,
		limit:      b.cfg.MaxMessage,
		log:        b.log,
		inbox:      s.inbox,
		background: b.running.Go,
	}
	if w.base == nil {
		w.base = http.DefaultTransport
	}
	return &mcp.StreamableClientTransport{
		Endpoint:   b.cfg.URL,
		HTTPClient: w.client(),
		// Which the wire counts: the SDK would give up the session.
		MaxRetries: math.MaxInt32,
		// The wire bounds events, without ending the session for one.
		MaxEventSize: -1,
	}
}
