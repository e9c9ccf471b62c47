// Package refusals has every reason for which a call is refused, and holds them
// against what is known of the call: what has happened under an id is told,
// whatever speaks against running it now; else the refusal stands.
//
// The table is one for all stores. Who has a kind of store hands it to Run, which
// has one process make the records, ends it as a kill does where the store outlives
// a process, and asks the next one.
package refusals

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// patience is the time of a call: longer than a machine may stand still.
const patience = 5 * time.Minute

// Reason is why a payment is not made which its record does not speak against.
type Reason struct {
	Name string
	// Code is what is told of a payment of which nothing is known, or that has not
	// run, and Says a part of its words. Without a code it is made: what has changed
	// is no reason to refuse.
	Code tool.Code
	Says string
	// Words are the functions that put the refusal into words, in explain or call, and
	// the ceiling that a budget has: TestNoReasonIsLeftOut has them all.
	Words []string
	// Stops: the loop is told to end.
	Stops bool
	// Mismatch: what is sent cannot be the call that the record is of.
	Mismatch bool
	// Nowhere: the call has no conversation.
	Nowhere bool

	// arrange makes the world one in which the payment is refused.
	arrange func(w *world)
}

// world is the process that is asked for a payment, and the payment.
type world struct {
	*calltest.Sidecar

	t    *testing.T
	req  *sidecallv1.ExecuteToolRequest
	pays *calltest.Backend
	// stands: its record is no reason not to make the payment.
	stands bool
	// before are calls that are sent in one batch with it, before it.
	before []*sidecallv1.ExecuteToolRequest
}

// paid is what a payment says that was made; again when it is made now.
const paid, again = "paid", "paid again"

// now makes the tools other ones.
func (w *world) now(routes ...*catalog.Route) { w.Generation.Set(catalog.ConfigSource, routes) }

// charge is the payment's tool, with a change.
func (w *world) charge(change ...func(*catalog.Route)) *catalog.Route {
	return w.tool("charge", tool.NonIdempotent, w.pays, change...)
}

// tool is one whose calls have more time than a machine may stand still.
func (w *world) tool(name string, effect tool.Effect, b *calltest.Backend, change ...func(*catalog.Route)) *catalog.Route {
	w.t.Helper()
	return calltest.NewRoute(w.t, name, effect, b, append([]func(*catalog.Route){func(r *catalog.Route) {
		r.Tool.Policy.Deadline, r.Tool.Policy.AttemptTimeout = patience, patience
	}}, change...)...)
}

// profile is the one that the payment is made in.
func (w *world) profile(p catalog.Profile) {
	p.Name, p.Tools = "tight", []string{"*"}
	w.Profile(p)
	w.req.Profile = p.Name
}

// other is a call like the payment, under another id.
func (w *world) other(id string, change ...func(*sidecallv1.ExecuteToolRequest)) *sidecallv1.ExecuteToolRequest {
	req := &sidecallv1.ExecuteToolRequest{
		ToolUseId: w.req.GetToolUseId() + "-" + id, ToolName: w.req.GetToolName(), ArgumentsJson: w.req.GetArgumentsJson(),
		ConversationId: w.req.GetConversationId(), TurnId: w.req.GetTurnId(), Profile: w.req.GetProfile(), TokensUsed: w.req.GetTokensUsed(),
	}
	for _, f := range change {
		f(req)
	}
	return req
}

// must makes a call that has to end with a code; none is empty.
func (w *world) must(req *sidecallv1.ExecuteToolRequest, code tool.Code) {
	w.t.Helper()
	if res := w.Call(req); calltest.Code(res) != code {
		w.t.Fatalf("%s: got %v, want %q", req.GetToolUseId(), res, code)
	}
}

// ask sends the payment.
func (w *world) ask() *sidecallv1.ExecuteToolResponse {
	if len(w.before) == 0 {
		return w.Execute(w.t.Context(), call.NewRequest("", w.req))
	}
	var batch []call.Request
	for _, req := range append(w.before, w.req) {
		batch = append(batch, call.NewRequest("", req))
	}
	return w.ExecuteBatch(w.t.Context(), batch)[len(w.before)]
}

// keyOf is the identity of a payment.
func keyOf(req *sidecallv1.ExecuteToolRequest) tool.CallID {
	key, _ := call.KeyOf("", req)
	return key
}
