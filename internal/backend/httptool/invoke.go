package httptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/tool"
)

// Invoke sends one request. It implements backend.Backend.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	b.inFlight.Add(1)
	defer b.inFlight.Done()

	found, ok := b.endpoints.Load(call.Tool)
	if !ok {
		return tool.Reply{}, &tool.Failure{
			Code: tool.CodeInternal, Evidence: tool.NotExecuted, ErrorType: "not_registered", CallerFault: true,
			Err: fmt.Errorf("tool %s is not registered at backend %s", call.Tool, b.name),
		}
	}
	at := found.(*endpoint) //nolint:forcetypeassert // only Register stores
	req, violation := at.request(ctx, call)
	if violation != nil {
		return tool.Reply{}, violation
	}
	return b.exchange(ctx, req, call)
}

// exchange makes the request and reads the answer, following harmless
// redirects.
func (b *Backend) exchange(ctx context.Context, req *request, call backend.Invocation) (tool.Reply, *tool.Failure) {
	sending, stop := ctx, context.CancelFunc(nil)
	if b.shared && call.Right != nil {
		sending, stop = context.WithCancel(ctx)
		defer stop()
	}
	for hop, unfit := 0, 0; ; {
		trip := conn.Trip{Right: call.Right, Stop: stop}
		failpoint.Hit(failpoint.RequestUnsent)
		resp, err := b.transport.RoundTrip(req.build(trip.Watch(sending)))
		switch fate := trip.Fate(err); {
		case fate == conn.Underway && err == nil:
		case fate == conn.Underway && trip.Waited() && b.busy():
			return tool.Reply{}, overloaded(ctx, err)
		case fate == conn.Underway:
			return tool.Reply{}, backend.Classify(ctx, err, trip.Wrote())
		default:
			disown(resp)
			if unfit++; fate == conn.Unfit && unfit < conn.MaxUnfit {
				continue
			}
			return tool.Reply{}, notSent(fate)
		}
		failpoint.Hit(failpoint.ResponseHeaders)
		if next := follow(resp, req, call.Effect, hop); next != nil {
			discard(resp.Body)
			req = next
			hop++
			continue
		}
		answered(ctx, resp)
		reply, failure := b.read(ctx, resp, call)
		failpoint.Hit(failpoint.ResponseRead)
		return reply, failure
	}
}

// disown throws away what came on a connection without being the answer to the
// request, if anything did.
func disown(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close() // the connection is closed already
	}
}

// busy reports that requests have all connections that there may be.
func (u *upstream) busy() bool {
	most := u.transport.MaxConnsPerHost
	return most > 0 && u.conns.Serving() >= most
}

// overloaded is a request that has waited for its turn all its time. That the calls before
// it take long is no failure of the connection.
func overloaded(ctx context.Context, err error) *tool.Failure {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return backend.Classify(ctx, err, false)
	}
	return &tool.Failure{
		Code: tool.CodeOverloaded, Evidence: tool.NotExecuted, ErrorType: "connections_busy",
		Constraint: "no connection to the upstream was free for as long as the call could wait",
		RetryAfter: time.Second, KnownDown: true, Err: err,
	}
}

// notSent is a request that was kept from leaving.
func notSent(fate conn.Fate) *tool.Failure {
	if fate == conn.Withheld {
		return backend.LeaseLost()
	}
	return backend.NoneFit()
}
