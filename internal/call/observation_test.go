package call_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
	"github.com/sidecall/sidecall/test/testkit/injections"
)

// multi is a backend that answers 207.
func multi(text string) *calltest.Backend {
	return &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Status: 207, Text: []byte(text), JSON: true}, nil
	}}
}

// listing takes an argument orders, and others that may be left out.
func listing(r *catalog.Route) {
	r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"orders":{"type":"array"},"city":{"type":"string"},"since":{"type":"string"},"order_id":{"type":"string"}},"required":["order_id"]}`)
}

func callWith(s *calltest.Sidecar, name, args string) *sidecallv1.ExecuteToolResponse {
	req := calltest.Request("toolu_"+name, name)
	req.ArgumentsJson = args
	return s.Call(req)
}

// What a model reads of calls that were done in part, or found nothing.
func TestWhatAModelIsToldOfPartialAndEmptyResults(t *testing.T) {
	const some = `[{"id":"A-1","status":201},{"id":"A-2","status":404},{"id":"A-3","status":201},{"id":"A-4","status":504}]`
	const three = `{"order_id":"x","orders":["A-1","A-2","A-3","A-4"]}`
	emptyWhen := func(r *catalog.Route) {
		program, err := interpret.Compile(interpret.Config{EmptyWhen: "size(body.items) == 0"})
		if err != nil {
			t.Fatal(err)
		}
		r.Program = program
	}
	for name, c := range map[string]struct {
		route   *catalog.Route
		args    string
		outcome sidecallv1.Outcome
		want    string
	}{
		"an effect in part": {
			calltest.NewRoute(t, "ship", tool.NonIdempotent, multi(some), listing), three, sidecallv1.Outcome_OUTCOME_PARTIAL,
			`{"_note":"Done in part: 2 of 4 items. Done, not to be sent again: 0 (A-1), 2 (A-3). Not done: 1 (A-2). ` +
				`May or may not be done: 3 (A-4); do not send them again until you know. Indexes count from 0. ` +
				`Call ship again with only those of orders that were not done, corrected as their errors say.","result":` + some + `}`,
		},
		"one that may be repeated": {
			calltest.NewRoute(t, "put", tool.Idempotent, multi(some), listing), three, sidecallv1.Outcome_OUTCOME_PARTIAL,
			`{"_note":"Done in part: 2 of 4 items. Done, not to be sent again: 0 (A-1), 2 (A-3). Not done: 1 (A-2), 3 (A-4). Indexes count from 0. ` +
				`Call put again with only those of orders that were not done, corrected as their errors say.","result":` + some + `}`,
		},
		"items that have no ids": {
			calltest.NewRoute(t, "send", tool.NonIdempotent, multi(`[{"ok":true},{"ok":true},{"ok":true},{"ok":false},{"ok":true},{"ok":false},{"ok":false}]`)), `{"order_id":"x"}`, sidecallv1.Outcome_OUTCOME_PARTIAL,
			`{"_note":"Done in part: 4 of 7 items. Done, not to be sent again: 0-2, 4. Not done: 3, 5-6. Indexes count from 0. ` +
				`Call send again with only the items that were not done, corrected as their errors say.","result":` +
				`[{"ok":true},{"ok":true},{"ok":true},{"ok":false},{"ok":true},{"ok":false},{"ok":false}]}`,
		},
		"a multi-status that cannot be read": {
			calltest.NewRoute(t, "copy", tool.NonIdempotent, multi(`{"see":"there"}`)), `{"order_id":"x"}`, sidecallv1.Outcome_OUTCOME_OK,
			`{"_note":"copy may have done only some of this: its answer tells so item by item. Read it before you rely on it, and call copy again only with what it says was not done.","result":{"see":"there"}}`,
		},
		"a search that finds nothing": {
			calltest.NewRoute(t, "find", tool.ReadOnly, calltest.Answers(`[]`), listing), `{"order_id":"x","since":"2026","city":"Bonn"}`, sidecallv1.Outcome_OUTCOME_EMPTY,
			`{"_note":"find found nothing. That is an answer and no error: the same call finds the same. To find more, leave out or widen city, since; ` +
				`or try other values, such as another id; or go on without it, or tell the user that there is nothing.","result":[]}`,
		},
		"a look-up that finds nothing": {
			calltest.NewRoute(t, "get", tool.ReadOnly, calltest.Answers(" "), listing), `{"order_id":"x"}`, sidecallv1.Outcome_OUTCOME_EMPTY,
			" \n[get found nothing. That is an answer and no error: the same call finds the same. Try other values, such as another id or a shorter search text; or go on without it, or tell the user that there is nothing.]",
		},
		"an effect that returns nothing": {
			calltest.NewRoute(t, "drop", tool.Idempotent, calltest.Answers("")), `{"order_id":"x"}`, sidecallv1.Outcome_OUTCOME_EMPTY,
			"[drop ran and returned nothing: it has succeeded. Do not call it again for this.]",
		},
		"an effect that found nothing to do": {
			calltest.NewRoute(t, "sweep", tool.Idempotent, calltest.Answers(`{"items":[]}`), emptyWhen), `{"order_id":"x"}`, sidecallv1.Outcome_OUTCOME_EMPTY,
			`{"_note":"sweep found nothing. That is an answer and no error: the same call finds the same. Try other values, such as another id or a shorter search text; or go on without it, or tell the user that there is nothing.","result":{"items":[]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := calltest.New(t, c.route)
			res := callWith(s, c.route.Tool.Name, c.args)
			if res.GetOutcome() != c.outcome || res.GetContent() != c.want || res.GetIsError() {
				t.Errorf("%s:\n%s\nwant %s:\n%s", res.GetOutcome(), res.GetContent(), c.outcome, c.want)
			}
			if note := res.GetNotices(); len(note) != 1 || !strings.Contains(res.GetContent(), note[0]) {
				t.Errorf("notices: %q", note)
			}
			again := callWith(s, c.route.Tool.Name, c.args)
			if again.Replayed = false; !proto.Equal(again, res) {
				t.Errorf("a replay says something else: %v", again)
			}
		})
	}
}

// The program has the items one by one, each with its place in the arguments; what may
// have been done is not offered again.
func TestItemsThatWereNotDone(t *testing.T) {
	const some = `[{"id":"A-1","status":201},{"id":"A-2","status":404},{"id":"A-3","status":504}]`
	for effect, last := range map[tool.Effect]tool.Code{tool.NonIdempotent: tool.CodeOutcomeUnknown, tool.Keyed: tool.CodeDependencyUnavailable} {
		s := calltest.New(t, calltest.NewRoute(t, "ship", effect, multi(some), listing, func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "get_orders" }))
		items := callWith(s, "ship", `{"order_id":"x","orders":["A-1","A-2","A-3"]}`).GetItems()
		if len(items) != 3 || !items[0].GetOk() || items[0].GetContent() != `{"id":"A-1","status":201}` {
			t.Fatalf("%v", items)
		}
		if e := items[1].GetError(); e.GetCode() != string(tool.CodeNotFound) || e.GetField() != "orders[1]" || !strings.Contains(e.GetHint(), "only the items that were not done") {
			t.Errorf("the one that was not done: %v", e)
		}
		e := items[2].GetError()
		if e.GetCode() != string(last) || e.GetField() != "orders[2]" || (effect == tool.NonIdempotent) != strings.Contains(e.GetHint(), "Do not send this item again until you know whether it was done: ask get_orders.") {
			t.Errorf("the one that may have been, of a %s tool: %v", effect, e)
		}
	}
}

// None done: an error, with its items; and where one may have been done, so may the call.
func TestACallOfWhichNoItemWasDone(t *testing.T) {
	s := calltest.New(t,
		calltest.NewRoute(t, "none", tool.NonIdempotent, multi(`[{"status":404},{"status":409}]`)),
		calltest.NewRoute(t, "maybe", tool.NonIdempotent, multi(`[{"status":404},{"status":504}]`)),
		calltest.NewRoute(t, "again", tool.Keyed, multi(`[{"status":404},{"status":504}]`)))
	for name, want := range map[string]struct {
		code  tool.Code
		state dedupe.State
	}{"none": {tool.CodeUnrecoverable, dedupe.Done}, "maybe": {tool.CodeOutcomeUnknown, dedupe.Unknown}, "again": {tool.CodeDependencyUnavailable, dedupe.NotRun}} {
		res := callWith(s, name, `{"order_id":"x"}`)
		if calltest.Code(res) != want.code || len(res.GetItems()) != 2 || s.State("toolu_"+name) != want.state || !strings.Contains(res.GetError().GetConstraint(), "none of the 2 items was done") {
			t.Errorf("%s: %v, %v", name, res, s.State("toolu_"+name))
		}
	}
}

// What an untrusted tool calls its items and arguments gets no word into what the
// sidecar says; the remark stands behind the boundary.
func TestRemarksHaveNoWordsOfTheTool(t *testing.T) {
	var payload injections.Payload
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Status: 207, JSON: true, Text: []byte(`[{"id":` + quote(payload.Text) + `,"status":200},{"id":"B-2","status":404}]`)}, nil
	}}
	open := func(r *catalog.Route) { r.Tool.InputSchema = json.RawMessage(`{"type":"object"}`) }
	s := calltest.New(t, calltest.NewRoute(t, "ship", tool.NonIdempotent, b, untrusted, open))
	for i, p := range injections.All(t) {
		payload = p
		req := calltest.Request("toolu_"+string(rune('a'+i%26))+p.String(), "ship")
		list, _ := json.Marshal(map[string]any{strings.ToValidUTF8(p.Text, ""): []int{1, 2}}) // texts alone
		req.ArgumentsJson = string(list)
		if regexp.MustCompile(`^\{"\w+"`).Match(list) || len(list) > 10_000 {
			continue // a name like any other, or more than an id may have
		}
		res := s.Call(req)
		_, behind := inside(t, res.GetContent())
		const want = "\n[Done in part: 1 of 2 items. Done, not to be sent again: 0. Not done: 1 (B-2). Indexes count from 0. Call ship again with only the items that were not done, corrected as their errors say.]"
		if behind != want {
			t.Errorf("%s: behind the boundary is %q", p.String(), behind)
		}
	}
}
