package call_test

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Of a call whose settlement waits in the journal a timeline is told what GetExecution tells.
func TestTheCallsOfAConversationAreToldAsTheyAreKnown(t *testing.T) {
	store := &away{Store: embedded.InMemory(embedded.Options{})}
	b := calltest.Answers("paid")
	route := calltest.NewRoute(t, "refund", tool.NonIdempotent, b)
	s := calltest.NewOn(t, embedded.InMemory(embedded.Options{}), route)
	journals(s, t, store)
	s.Call(calltest.Request("t1", "refund"))
	route.Backend = awayAfter{b, store}
	s.Call(calltest.Request("t2", "refund"))

	all, more, err := s.Records().CallsOf(t.Context(), "", "c1")
	if err != nil || more || len(all) != 2 {
		t.Fatalf("%v, %v, %v", all, more, err)
	}
	for _, r := range all {
		if r.State != dedupe.Done || r.Text == "" || r.Arguments != `{"order_id":"A-1"}` || r.Turn != "t1" {
			t.Errorf("%s: %+v", r.ID, r)
		}
	}
	store.is.Store(false) // so that it ends
}
