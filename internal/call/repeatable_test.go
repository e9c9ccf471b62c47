package call_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A payment with a key may be repeated under its id alone. When its tool cannot be
// called any more nobody repeats it, and a refusal would invite a second one under
// another id, and with another key.
func TestAKeyedCallThatMayHaveRunIsNotJustRefused(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(s *calltest.Sidecar, req *sidecallv1.ExecuteToolRequest, r *catalog.Route){
		"the tool is gone": func(s *calltest.Sidecar, _ *sidecallv1.ExecuteToolRequest, _ *catalog.Route) {
			s.Generation.Set(catalog.ConfigSource, nil)
		},
		"the profile is narrower": func(_ *calltest.Sidecar, req *sidecallv1.ExecuteToolRequest, _ *catalog.Route) {
			req.Profile = "narrow"
		},
		"an argument is required now": func(s *calltest.Sidecar, _ *sidecallv1.ExecuteToolRequest, r *catalog.Route) {
			s.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "charge", r.Tool.Effect, r.Backend, func(r *catalog.Route) {
				r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"string"},"reason":{"type":"string"}},"required":["order_id","reason"]}`)
			})})
		},
	} {
		for name, test := range map[string]struct {
			effect tool.Effect
			pays   *calltest.Backend
			want   bool
		}{
			"keyed, its answer lost":      {tool.Keyed, calltest.Fails(calltest.Always, calltest.CutOff), true},
			"keyed, never sent":           {tool.Keyed, withheld(), false},
			"idempotent, its answer lost": {tool.Idempotent, calltest.Fails(calltest.Always, calltest.CutOff), false},
		} {
			t.Run(reason+"/"+name, func(t *testing.T) {
				r := calltest.NewRoute(t, "charge", test.effect, test.pays)
				s := calltest.New(t, r)
				req := calltest.Request("toolu_1", "charge")
				if res := s.Call(req); s.State("toolu_1") != dedupe.NotRun {
					t.Fatal(res)
				}
				sent := test.pays.Calls.Load()
				change(s, req, r)
				checkRefusal(t, s, req, test.want)
				if test.pays.Calls.Load() != sent {
					t.Error("it was sent again")
				}
				req.ArgumentsJson = `{"order_id":3}` // another call
				checkRefusal(t, s, req, false)
			})
		}
	}
}

// withheld is a backend that is not let send.
func withheld() *calltest.Backend {
	return &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		lost := backend.Invocation{Right: noRight{}}
		return tool.Reply{}, lost.Withheld()
	}}
}

type noRight struct{}

func (noRight) Held() bool { return false }

func checkRefusal(t *testing.T, s *calltest.Sidecar, req *sidecallv1.ExecuteToolRequest, unknown bool) {
	t.Helper()
	res := s.Call(req)
	if got := calltest.Code(res) == tool.CodeOutcomeUnknown; got != unknown || !res.GetIsError() {
		t.Errorf("got %s", res.GetContent())
	}
	if hint := res.GetError().GetHint(); unknown && !strings.Contains(hint, "same id") {
		t.Errorf("hint %q", hint)
	}
}

// Likewise when the sidecar that ran it was killed.
func TestAKeyedCallOfADeadSidecarIsNotJustRefused(t *testing.T) {
	t.Parallel()
	store := embedded.InMemory(embedded.Options{})
	req := calltest.Request("toolu_1", "charge")
	canonical, err := schema.Canonical(map[string]any{"order_id": "A-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Admit(t.Context(), dedupe.Request{
		Key: tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}, Tool: "charge", Effect: tool.Keyed, Fingerprint: schema.Fingerprint("charge", canonical),
		Owner: "earlier", Lease: time.Millisecond, Retention: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	s := calltest.NewOn(t, store)
	if res := s.Call(req); calltest.Code(res) != tool.CodeOutcomeUnknown {
		t.Errorf("got %s", res.GetContent())
	}
}
