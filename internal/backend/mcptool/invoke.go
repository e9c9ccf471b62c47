package mcptool

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/tool"
)

// methodCall is the method of a tool call.
const methodCall = "tools/call"

// Invoke implements backend.Backend: one tools/call.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	s, failure := b.state.acquire(ctx)
	if failure != nil {
		return tool.Reply{}, failure
	}
	leave := sync.OnceFunc(s.leave)
	defer leave()
	h := &hearing{call: &call}
	defer h.stop()
	params, failure := b.params(ctx, s, h)
	if failure != nil {
		return tool.Reply{}, failure
	}
	h.at(s)
	c := &capture{right: call.Right, memory: call.Memory}
	lasting, end := s.lasting(ctx)
	defer end()
	_, err := s.client.CallTool(c.in(lasting), params)
	a := s.done(c)
	h.open = a.sent && (a.outcome == unanswered || a.outcome == brokenOff)
	reply, failure, handle := s.outcome(ctx, &call, a, err)
	if handle == nil {
		return reply, failure
	}
	leave() // what is followed holds no session
	h.open = true
	reply, failure = b.follow(ctx, h, handle)
	h.open = failure != nil && failure.Evidence == tool.Ambiguous
	return reply, failure
}

// params are those of the request of a call.
func (b *Backend) params(ctx context.Context, s *session, h *hearing) (*mcp.CallToolParams, *tool.Failure) {
	call := h.call
	params := &mcp.CallToolParams{Name: call.Target, Arguments: call.Args, Meta: metaOf(ctx)}
	params.Meta[identity.Key] = call.IdempotencyKey
	if len(call.Args) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	if call.Round != nil {
		if err := s.hand(call.Round, params); err != nil {
			return nil, unfit(err)
		}
	}
	if call.Progress != nil {
		h.token = "sidecall-" + strconv.FormatInt(b.attempts.Add(1), 10)
		params.Meta["progressToken"] = h.token
	}
	return params, nil
}

// outcome reads what was seen of a call. handle is its answer where that is the handle of a task.
func (s *session) outcome(ctx context.Context, call *backend.Invocation, a seen, err error) (_ tool.Reply, _ *tool.Failure, handle json.RawMessage) {
	s.describe(ctx, a)
	if a.withheld {
		return tool.Reply{}, backend.LeaseLost(), nil
	}
	if ctx.Err() != nil && (a.outcome == refused || a.outcome == brokenOff) {
		// What our own cancellation caused says nothing.
		a.answer = answer{err: a.err}
	}
	if a.outcome == unanswered {
		failure := unansweredFailure(ctx, a, err)
		if failure.ErrorType == backend.ErrorTypeTimeout {
			notify(s.suspect)
		}
		return tool.Reply{}, failure, nil
	}
	reply, failure := read(a.answer, *call)
	if failure != nil && failure.ErrorType == errorTypeOther && isHandle(a.answer) {
		return reply, nil, a.result
	}
	if failure != nil && failure.Code == tool.CodeUnknownTool {
		// Few servers say that their list has changed. Once it is read again, such
		// a call is refused before it is sent.
		notify(s.changed)
	}
	return reply, failure, nil
}

// hearing is where a call is heard of while it runs: at one session, and where it is a task, at
// those that follow.
type hearing struct {
	call *backend.Invocation
	// token is that of its progress; empty where nobody wants to hear of that.
	token string

	// open: its server may be at work on it.
	open bool

	session *session
	over    func()
}

// at has the call heard of at a session, and no more at the one before.
func (h *hearing) at(s *session) {
	if h.session == s {
		return
	}
	h.stop()
	over, unwatch := s.underWay(h, h.call.Caller), func() {}
	if h.token != "" {
		unwatch = s.watch(h.token, h.call.Progress)
	}
	h.session, h.over = s, func() { over(); unwatch() }
}

// stop has it heard of no more.
func (h *hearing) stop() {
	if h.session != nil {
		if h.over(); h.open {
			h.session.linger()
		}
		h.session = nil
	}
}

// metaOf is the _meta of a request, with trace context and baggage, which MCP puts there without
// a prefix.
func metaOf(ctx context.Context) mcp.Meta {
	carried := make(propagation.MapCarrier)
	otel.GetTextMapPropagator().Inject(ctx, carried)
	meta := make(mcp.Meta, 8)
	for name, value := range carried {
		meta[name] = value
	}
	return meta
}
