package call_test

import (
	"context"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// reread are readings of one call's arguments, by schemas of which the second came
// with a restart.
var reread = map[string]struct{ then, now, arguments string }{
	"a null was left out, and is kept now": {
		then: `{"type":"object","properties":{"order_id":{"type":"string"},"note":{"type":"string"}}}`,
		now:  `{"type":"object","properties":{"order_id":{"type":"string"},"note":{"type":["string","null"]}}}`, arguments: `{"order_id":"A-1","note":null}`,
	},
	"a null was kept, and is left out now": {
		then: `{"type":"object","properties":{"order_id":{"type":"string"},"note":{"type":["string","null"]}}}`,
		now:  `{"type":"object","properties":{"order_id":{"type":"string"},"note":{"type":"string"}}}`, arguments: `{"order_id":"A-1","note":null}`,
	},
	"a spelling was taken for a number, and is refused now": {
		then: `{"type":"object","properties":{"cents":{"type":"integer"}}}`,
		now:  `{"type":"object","properties":{"cents":{"type":"integer"},"why":{"type":"string"}},"required":["why"]}`, arguments: `{"cents":"5"}`,
	},
	"a spelling was taken for a number, and is a text now": {
		then: `{"type":"object","properties":{"cents":{"type":"integer"}}}`,
		now:  `{"type":"object","properties":{"cents":{"type":"string"}}}`, arguments: `{"cents":"5"}`,
	},
}

// A call is the same when nothing has changed but what its schema makes of its
// arguments: it is not to be made again under another id.
func TestAKnownIDWhoseArgumentsAreReadOtherwise(t *testing.T) {
	t.Parallel()
	for name, test := range reread {
		for _, state := range []dedupe.State{dedupe.Done, dedupe.Unknown, dedupe.NotRun} {
			t.Run(name+"/"+state.String(), func(t *testing.T) {
				reading := func(b *calltest.Backend, text string) *catalog.Route {
					return calltest.NewRoute(t, "charge", tool.NonIdempotent, b, func(r *catalog.Route) {
						r.Tool.InputSchema, r.Tool.Policy.Coerce = []byte(text), true
					})
				}
				req := calltest.Request("toolu_1", "charge")
				req.ArgumentsJson = test.arguments
				s := calltest.New(t, reading(map[dedupe.State]*calltest.Backend{
					dedupe.Done: calltest.Answers("paid"), dedupe.Unknown: calltest.Fails(calltest.Always, calltest.CutOff), dedupe.NotRun: calltest.Fails(calltest.Always, calltest.Refused),
				}[state], test.then))
				first := s.Call(req)
				if s.State("toolu_1") != state {
					t.Fatal(first)
				}
				again := calltest.Answers("paid again")
				s.Generation.Set(catalog.ConfigSource, []*catalog.Route{reading(again, test.now)})
				res := s.Call(req)
				switch {
				case state != dedupe.NotRun:
					if !res.GetReplayed() || res.GetContent() != first.GetContent() || again.Calls.Load() != 0 {
						t.Errorf("got %s, first %s", res.GetContent(), first.GetContent())
					}
				case calltest.Code(res) == tool.CodeInvalidArgs: // it has not run, and is not to
				case res.GetIsError() || s.State("toolu_1") != dedupe.Done || again.Calls.Load() != 1:
					t.Errorf("got %s", res.GetContent())
				}
			})
		}
	}
}

// Likewise while it runs: a server may change its tools in the middle.
func TestARunningCallWhoseArgumentsAreReadOtherwise(t *testing.T) {
	t.Parallel()
	for name, test := range reread {
		t.Run(name, func(t *testing.T) {
			reading := func(b *calltest.Backend, text string) *catalog.Route {
				return calltest.NewRoute(t, "charge", tool.NonIdempotent, b, func(r *catalog.Route) {
					r.Tool.InputSchema, r.Tool.Policy.Coerce = []byte(text), true
					r.Tool.Policy.AttemptTimeout, r.Tool.Policy.Deadline = time.Minute, time.Minute
				})
			}
			began, end := make(chan struct{}), make(chan struct{})
			s := calltest.New(t, reading(&calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				close(began)
				<-end
				return tool.Reply{Text: []byte("paid")}, nil
			}}, test.then))
			call := func() chan *sidecallv1.ExecuteToolResponse {
				done := make(chan *sidecallv1.ExecuteToolResponse, 1)
				go func() {
					req := calltest.Request("toolu_1", "charge")
					req.ArgumentsJson = test.arguments
					done <- s.Call(req)
				}()
				return done
			}
			first := call()
			<-began
			again := calltest.Answers("paid again")
			s.Generation.Set(catalog.ConfigSource, []*catalog.Route{reading(again, test.now)})
			duplicates := []chan *sidecallv1.ExecuteToolResponse{call(), call()}
			close(end)
			<-first
			for _, duplicate := range duplicates {
				if res := <-duplicate; !res.GetReplayed() || res.GetContent() != "paid" {
					t.Errorf("got %s", res.GetContent())
				}
			}
			if again.Calls.Load() != 0 {
				t.Error("it was run again")
			}
		})
	}
}

// Arguments of another call are another call's, though its tool is gone and it had
// none itself.
func TestACallWithoutArgumentsIsNotEveryCall(t *testing.T) {
	t.Parallel()
	s := calltest.New(t, calltest.NewRoute(t, "charge", tool.NonIdempotent, calltest.Answers("paid"), func(r *catalog.Route) {
		r.Tool.InputSchema = []byte(`{"type":"object"}`)
	}))
	req := calltest.Request("toolu_1", "charge")
	req.ArgumentsJson = `{}`
	if res := s.Call(req); res.GetIsError() {
		t.Fatal(res)
	}
	s.Generation.Set(catalog.ConfigSource, nil)
	if res := s.Call(req); res.GetContent() != "paid" {
		t.Errorf("got %s", res.GetContent())
	}
	req.ArgumentsJson = `{"order_id":"A-1"}`
	if res := s.Call(req); calltest.Code(res) != tool.CodeIDReused {
		t.Errorf("got %s", res.GetContent())
	}
}
