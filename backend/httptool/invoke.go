package httptool

import (
	"context"
	"fmt"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/tool"
)

// Invoke sends one request. It implements backend.Backend.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (backend.Reply, *tool.Failure) {
	b.inFlight.Add(1)
	defer b.inFlight.Done()

	found, ok := b.endpoints.Load(call.Tool)
	if !ok {
		return backend.Reply{}, &tool.Failure{
			Code: tool.CodeInternal, Evidence: tool.NotExecuted, ErrorType: "not_registered", CallerFault: true,
			Err: fmt.Errorf("tool %s is not registered at backend %s", call.Tool, b.name),
		}
	}
	at := found.(*endpoint) //nolint:forcetypeassert // only Register stores
	req, violation := at.request(ctx, call)
	if violation != nil {
		return backend.Reply{}, violation
	}
	return b.exchange(ctx, req, call)
}

// exchange makes the request and reads the answer, following harmless
// redirects.
func (b *Backend) exchange(ctx context.Context, req *request, call backend.Invocation) (backend.Reply, *tool.Failure) {
	for hop := 0; ; hop++ {
		var try attempt
		failpoint.Hit(failpoint.RequestUnsent)
		resp, err := b.transport.RoundTrip(req.build(try.watch(ctx)))
		if err != nil {
			return backend.Reply{}, backend.Classify(ctx, err, try.wrote())
		}
		failpoint.Hit(failpoint.ResponseHeaders)
		if next := follow(resp, req, call.Effect, hop); next != nil {
			discard(resp.Body)
			req = next
			continue
		}
		reply, failure := b.read(ctx, resp, call)
		failpoint.Hit(failpoint.ResponseRead)
		return reply, failure
	}
}
