package call_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/embedded"
	"github.com/sidecall/sidecall/dedupe/memory"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

// before leaves a payment toolu_1 behind in a store, in a state, as a sidecar
// does whose config was another one.
func before(t *testing.T, store dedupe.Store, state dedupe.State) {
	t.Helper()
	if state == dedupe.Absent {
		return
	}
	req := calltest.Request("toolu_1", "charge")
	args, violation := schema.ParseArgs("charge", req.GetArgumentsJson())
	if violation != nil {
		t.Fatal(violation)
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	key := dedupe.Key{Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId()}
	admission, err := store.Admit(t.Context(), dedupe.Request{
		Key: key, Tool: "charge", Effect: tool.NonIdempotent, Fingerprint: schema.Fingerprint("charge", canonical),
		Owner: "earlier", Lease: time.Minute, Retention: time.Hour,
	})
	if err != nil || admission.Verdict != dedupe.Won {
		t.Fatal(admission, err)
	}
	if state == dedupe.Claimed {
		return
	}
	settlement := dedupe.Settlement{Key: key, Owner: "earlier", Epoch: 1, State: state, Attempts: 1, Retention: time.Hour}
	if state == dedupe.Done {
		if settlement.Result, err = proto.Marshal(&sidecallv1.ExecuteToolResponse{
			ToolUseId: "toolu_1", Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: "paid", Recorded: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if verdict, err := store.Settle(t.Context(), settlement); err != nil || verdict != dedupe.Settled {
		t.Fatal(verdict, err)
	}
}

// reopened are stores as the next process finds them.
var reopened = map[string]func(t *testing.T, state dedupe.State) dedupe.Store{
	"memory": func(t *testing.T, state dedupe.State) dedupe.Store {
		store := memory.New(memory.Options{})
		before(t, store, state)
		return store
	},
	"embedded": func(t *testing.T, state dedupe.State) dedupe.Store {
		path := filepath.Join(t.TempDir(), "sidecall.db")
		open := func() dedupe.Store {
			store, err := embedded.Open(path, embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return store
		}
		store := open()
		before(t, store, state)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		return open()
	},
}

// What has happened under an id is told, whatever speaks against running the call
// now; else the refusal stands.
func TestAKnownIDIsAnsweredFromItsRecord(t *testing.T) {
	type world struct {
		s    *calltest.Sidecar
		req  *sidecallv1.ExecuteToolRequest
		pays *calltest.Backend
	}
	charge := func(t *testing.T, pays *calltest.Backend, name string, change ...func(*catalog.Route)) *catalog.Route {
		return calltest.NewRoute(t, name, tool.NonIdempotent, pays, change...)
	}
	// Longer than a machine may stand still.
	patiently := func(r *catalog.Route) { r.Tool.Policy.Deadline = 2 * time.Minute }
	for reason, test := range map[string]struct {
		routes func(t *testing.T, pays *calltest.Backend) []*catalog.Route
		change func(w *world)
		code   tool.Code
	}{
		"the tool is gone": {code: tool.CodeUnknownTool},
		"renamed": {
			routes: func(t *testing.T, pays *calltest.Backend) []*catalog.Route {
				return []*catalog.Route{charge(t, pays, "charge_keyed", patiently)}
			}, code: tool.CodeUnknownTool,
		},
		"an argument is required now": {
			routes: func(t *testing.T, pays *calltest.Backend) []*catalog.Route {
				return []*catalog.Route{charge(t, pays, "charge", patiently, func(r *catalog.Route) {
					r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"string"},"reason":{"type":"string"}},"required":["order_id","reason"]}`)
				})}
			}, code: tool.CodeInvalidArgs,
		},
		"an argument is of another type now": {
			routes: func(t *testing.T, pays *calltest.Backend) []*catalog.Route {
				return []*catalog.Route{charge(t, pays, "charge", patiently, func(r *catalog.Route) {
					r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"integer"}}}`)
				})}
			}, code: tool.CodeInvalidArgs,
		},
		"the profile is narrower": {change: func(w *world) { w.req.Profile = "narrow" }, code: tool.CodePermissionDenied},
		"the profile is gone":     {change: func(w *world) { w.req.Profile = "gone" }, code: tool.CodePermissionDenied},
		"no room at the backend": {
			routes: func(t *testing.T, pays *calltest.Backend) []*catalog.Route {
				full, _ := filled()
				return []*catalog.Route{charge(t, pays, "charge", patiently, withSlots(full))}
			}, code: tool.CodeOverloaded,
		},
		"no room in the sidecar": {change: func(w *world) { w.s.Slots, _ = filled() }, code: tool.CodeOverloaded},
	} {
		for kind, open := range reopened {
			for _, state := range []dedupe.State{dedupe.Absent, dedupe.Claimed, dedupe.Done, dedupe.NotRun, dedupe.Unknown} {
				t.Run(reason+"/"+kind+"/"+state.String(), func(t *testing.T) {
					w := &world{req: calltest.Request("toolu_1", "charge"), pays: calltest.Answers("paid again")}
					routes := []*catalog.Route{charge(t, w.pays, "charge", patiently)}
					switch {
					case reason == "the tool is gone":
						routes = nil
					case test.routes != nil:
						routes = test.routes(t, w.pays)
					}
					w.s = calltest.NewOn(t, open(t, state), routes...)
					if test.change != nil {
						test.change(w)
					}
					wait := 2 * time.Minute
					if state == dedupe.Claimed && kind == "memory" { // it will not end
						wait = 100 * time.Millisecond
					}
					var res *sidecallv1.ExecuteToolResponse
					for range 5 { // on a machine that stands still the wait is over before it begins
						ctx, cancel := context.WithTimeout(t.Context(), wait)
						var err error
						res, err = service(w.s).ExecuteTool(ctx, w.req)
						cancel()
						if err != nil {
							t.Fatal(err)
						}
						if calltest.Code(res) != tool.CodeStoreUnavailable {
							break
						}
					}
					calltest.CheckInvariants(t, w.req, res)
					want := map[dedupe.State]tool.Code{
						dedupe.Absent: test.code, dedupe.NotRun: test.code,
						dedupe.Done: "", dedupe.Unknown: tool.CodeOutcomeUnknown, dedupe.Claimed: tool.CodeInProgress,
					}[state]
					if state == dedupe.Claimed && kind == "embedded" { // its sidecar has died
						want = tool.CodeOutcomeUnknown
					}
					if calltest.Code(res) != want || state == dedupe.Done && (res.GetContent() != "paid" || !res.GetReplayed()) {
						t.Errorf("got %s, want %q", res.GetContent(), want)
					}
					if w.pays.Calls.Load() != 0 {
						t.Error("it was run")
					}
				})
			}
		}
	}
}

// The name of a tool that is gone, under an id of another call, is another call.
func TestAnIDOfAnotherCallIsNotItsOwn(t *testing.T) {
	s := calltest.NewOn(t, reopened["memory"](t, dedupe.Done))
	for name, change := range map[string]func(*sidecallv1.ExecuteToolRequest){
		"another tool":    func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "refund" },
		"other arguments": func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"order_id":"A-2"}` },
		"broken":          func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"order_id":` },
	} {
		req := calltest.Request("toolu_1", "charge")
		change(req)
		if res := s.Call(req); calltest.Code(res) != tool.CodeIDReused {
			t.Errorf("%s: %s", name, res.GetContent())
		}
	}
	req := calltest.Request("toolu_1", "charge")
	req.ArgumentsJson = `{"order_id":"A-1","note":null}` // was left out when it was called
	if res := s.Call(req); res.GetContent() != "paid" {
		t.Errorf("with a null: %s", res.GetContent())
	}
}

// While the store cannot be asked nobody knows what was done under the id: to say
// "call another tool" may be to say "pay again".
func TestARefusalWithoutTheStore(t *testing.T) {
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "charge", tool.NonIdempotent, calltest.Answers("ok")), calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	for name, want := range map[string]tool.Code{"charge": tool.CodeStoreUnavailable, "chrge": tool.CodeStoreUnavailable, "get_order": tool.CodeInvalidArgs} {
		req := calltest.Request("toolu_1", name)
		req.ArgumentsJson = `{}`
		res := s.Call(req)
		if calltest.Code(res) != want {
			t.Errorf("%s: %s", name, res.GetContent())
		}
		if hint := res.GetError().GetHint(); want == tool.CodeStoreUnavailable && !strings.Contains(hint, anotherID) {
			t.Errorf("%s: hint %q", name, hint)
		}
	}
}

// The end of a call that runs elsewhere is waited for.
func TestARefusedDuplicateWaitsForTheFirst(t *testing.T) {
	store := memory.New(memory.Options{})
	before(t, store, dedupe.Claimed)
	s := calltest.NewOn(t, store)
	done := make(chan *sidecallv1.ExecuteToolResponse)
	go func() { done <- s.Call(calltest.Request("toolu_1", "charge")) }()
	result, err := proto.Marshal(&sidecallv1.ExecuteToolResponse{ToolUseId: "toolu_1", Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: "paid"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Settle(t.Context(), dedupe.Settlement{
		Key: dedupe.Key{Conversation: "c1", Turn: "t1", ID: "toolu_1"}, Owner: "earlier", Epoch: 1, State: dedupe.Done, Result: result, Retention: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.GetContent() != "paid" || !res.GetReplayed() {
		t.Errorf("got %s", res.GetContent())
	}
}
