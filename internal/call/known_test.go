package call_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
	"github.com/sidecall/sidecall/test/testkit/refusals"
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
	key := tool.CallID{Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId()}
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

// What has happened under an id is told, whatever speaks against running the call
// now; else the refusal stands. refusals has the table; internal/store/redisstore asks the same
// of Redis. A memory store ends with its process, so that nothing is restarted there.
func TestAKnownIDIsAnsweredFromItsRecord(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		refusals.Run(t, refusals.Kind{Open: func(*testing.T) dedupe.Store { return embedded.InMemory(embedded.Options{}) }})
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "sidecall.db")
		refusals.Run(t, refusals.Kind{Outlives: true, Open: func(t *testing.T) dedupe.Store {
			t.Helper()
			store, err := embedded.Open(path, embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return store
		}})
	})
}

// The name of a tool that is gone, under an id of another call, is another call.
func TestAnIDOfAnotherCallIsNotItsOwn(t *testing.T) {
	store := embedded.InMemory(embedded.Options{})
	before(t, store, dedupe.Done)
	s := calltest.NewOn(t, store)
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
	store := embedded.InMemory(embedded.Options{})
	before(t, store, dedupe.Claimed)
	s := calltest.NewOn(t, store)
	done := make(chan *sidecallv1.ExecuteToolResponse)
	go func() { done <- s.Call(calltest.Request("toolu_1", "charge")) }()
	result, err := proto.Marshal(&sidecallv1.ExecuteToolResponse{ToolUseId: "toolu_1", Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: "paid"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Settle(t.Context(), dedupe.Settlement{
		Key: tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}, Owner: "earlier", Epoch: 1, State: dedupe.Done, Result: result, Retention: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.GetContent() != "paid" || !res.GetReplayed() {
		t.Errorf("got %s", res.GetContent())
	}
}
