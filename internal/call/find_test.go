package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func order(id, toolName, orderID string) *sidecallv1.ExecuteToolRequest {
	req := calltest.Request(id, toolName)
	req.ArgumentsJson = fmt.Sprintf(`{"order_id":%q,"cents":500}`, orderID)
	return req
}

func find(t *testing.T, s *calltest.Sidecar, req *sidecallv1.FindExecutionsRequest) *sidecallv1.FindExecutionsResponse {
	t.Helper()
	res, err := operator(s).FindExecutions(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func byOrderID(id string) *sidecallv1.FindExecutionsRequest {
	return &sidecallv1.FindExecutionsRequest{Key: "order_id", Value: id}
}

// The question of the night, for all that a call can have come to.
func TestDidItRun(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	slow := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(running)
		<-release
		return tool.Reply{Text: []byte("slow")}, nil
	}}
	s := calltest.New(t,
		calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("refunded r-1")),
		calltest.NewRoute(t, "lose", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "get_order" }),
		calltest.NewRoute(t, "miss", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.NotFound)),
		calltest.NewRoute(t, "reach", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused)),
		calltest.NewRoute(t, "put", tool.Idempotent, calltest.Fails(calltest.Always, calltest.CutOff)),
		calltest.NewRoute(t, "slow", tool.NonIdempotent, slow))
	for i, name := range []string{"refund", "lose", "miss", "reach", "put"} {
		s.Call(order(fmt.Sprint("toolu_", i), name, "A-"+name))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Call(order("toolu_slow", "slow", "A-slow"))
	}()
	<-running
	for _, c := range []struct {
		order   string
		verdict sidecallv1.Verdict
		words   []string // of explanation and advice
	}{
		{"A-refund", sidecallv1.Verdict_VERDICT_RAN, []string{"it ended in a result", "Under another id it would run again"}},
		{"A-lose", sidecallv1.Verdict_VERDICT_UNKNOWN, []string{"nobody knows", "Call get_order", "sidecall resolve"}},
		{"A-miss", sidecallv1.Verdict_VERDICT_RAN, []string{"NOT_FOUND"}},
		{"A-reach", sidecallv1.Verdict_VERDICT_NOT_RUN, []string{"nothing of it has had an effect", "safe to send again with the same ids"}},
		{"A-put", sidecallv1.Verdict_VERDICT_UNKNOWN, []string{"may be repeated", "repeated safely"}},
		{"A-slow", sidecallv1.Verdict_VERDICT_RUNNING, []string{"right now", "Wait"}},
	} {
		found := find(t, s, byOrderID(c.order)).GetExecutions()
		if len(found) != 1 || found[0].GetVerdict() != c.verdict {
			t.Errorf("%s: %v, want one that is %v", c.order, found, c.verdict)
			continue
		}
		said := found[0].GetExplanation() + " " + found[0].GetAdvice()
		if !slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(said, word) }) {
			t.Errorf("%s: it is said %q, want %q", c.order, said, c.words)
		}
	}
	close(release)
	<-ended
	if never := find(t, s, byOrderID("A-9")); len(never.GetExecutions()) != 0 || never.GetRememberedSince() == nil || len(never.GetSearchKeys()) != 0 {
		t.Errorf("of what never was: %v", never)
	}
}

// What would run when it is sent again does not while its tool cannot be called, and its advice says so.
// What is done is replayed all the same.
func TestAdviceAboutACallWhoseToolCannotBeCalled(t *testing.T) {
	refused := func(why string) []*catalog.Route {
		because := func(r *catalog.Route) { r.Refused = why }
		return []*catalog.Route{
			calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always"), because),
			calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid"), because),
			calltest.NewRoute(t, "reach", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused), because),
			calltest.NewRoute(t, "put", tool.Idempotent, calltest.Fails(calltest.Always, calltest.CutOff), because),
		}
	}
	s := calltest.New(t, refused("")...)
	for i, name := range []string{"refund", "refund", "pay", "reach", "put"} {
		s.Call(order(fmt.Sprint("toolu_", i), name, "A-1"))
	}
	approve(t, s) // toolu_1
	for _, now := range []struct {
		routes []*catalog.Route
		not    bool
	}{{refused(""), false}, {nil, true}, {refused("its server says something else of it"), true}} {
		s.Generation.Set(catalog.ConfigSource, now.routes)
		found := find(t, s, byOrderID("A-1")).GetExecutions()
		if len(found) != 5 {
			t.Fatalf("found %v", found)
		}
		for _, one := range found {
			want := now.not && one.GetVerdict() != sidecallv1.Verdict_VERDICT_RAN
			if strings.Contains(one.GetAdvice(), "Its tool cannot be called now") != want {
				t.Errorf("%d tools, %s: %s", len(now.routes), one.GetToolUseId(), one.GetAdvice())
			}
		}
	}
}

// A call that may have run, of a tool that must not be repeated any more, is settled in the order in which that
// can be done, and nobody is told that a sidecar has stopped.
func TestACallWhoseToolMustNotBeRepeatedAnyMoreIsSettled(t *testing.T) {
	lost := calltest.Fails(calltest.Always, calltest.CutOff)
	for _, held := range []bool{false, true} {
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Keyed, lost))
		s.Call(refund("toolu_1"))
		if held {
			s.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "refund", tool.Keyed, lost, asksFirst(t, "always"))})
			if res := s.Call(refund("toolu_1")); res.GetHold() == nil {
				t.Fatal(res)
			}
		}
		s.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "refund", tool.NonIdempotent, lost)})
		advised := func() *sidecallv1.FoundExecution {
			return find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions()[0]
		}
		const first = "send it again with its ids, which runs nothing"
		if said := advised().GetAdvice(); !strings.Contains(said, first) {
			t.Errorf("it cannot be settled yet: %s", said)
		}
		const why = "it was tried when its tool could be repeated, and must not be repeated now"
		if res := s.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeOutcomeUnknown || res.GetError().GetConstraint() != why {
			t.Errorf("sent again: %v", res)
		}
		if found := advised(); strings.Contains(found.GetAdvice(), first) || !strings.HasSuffix(found.GetExplanation(), why) {
			t.Errorf("found %v", found)
		}
		if _, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone)); err != nil {
			t.Error(err)
		}
	}
}

// What a rule has refused it refuses again, until something else has happened.
func TestARefusedCallIsNotSaidToRunWhenItIsSentAgain(t *testing.T) {
	s := watched(t, calltest.Answers("the same"))
	for _, n := range []int{1, 2, 3, 4, 5, 5} {
		if res := s.Call(nth(n, "pay", orders(1))); n == 5 && calltest.Code(res) != tool.CodeLoopDetected {
			t.Fatal(res)
		}
	}
	found := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "pay5"}).GetExecutions()
	if len(found) != 1 || !strings.HasSuffix(found[0].GetAdvice(), "then it runs, or is refused.") {
		t.Errorf("found %v", found)
	}
}

// What is forgotten is told as that, and never as what never was.
func TestWhatIsForgottenWasThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := calltest.NewWith(t, embedded.InMemory(embedded.Options{}), dedupe.Options{Retention: time.Hour}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")))
		s.Call(order("toolu_1", "refund", "A-77"))
		time.Sleep(2 * time.Hour)
		res := find(t, s, byOrderID("A-77"))
		found := res.GetExecutions()
		if len(found) != 1 || found[0].GetVerdict() != sidecallv1.Verdict_VERDICT_FORGOTTEN || found[0].GetToolUseId() != "toolu_1" ||
			!strings.Contains(found[0].GetExplanation(), "kept for 1h") || !strings.Contains(found[0].GetAdvice(), "upstream") {
			t.Errorf("found %v", found)
		}
		if off := time.Now().Add(-time.Hour).Sub(res.GetRememberedSince().AsTime()); off.Abs() > time.Millisecond {
			t.Errorf("remembered since %v, it is %v", res.GetRememberedSince().AsTime(), time.Now())
		}
		if never := find(t, s, byOrderID("A-99")).GetExecutions(); len(never) != 0 {
			t.Errorf("of what never was: %v", never)
		}
	})
}

// Each call is found by all that is known of it, and what else is said narrows that.
func TestFoundBy(t *testing.T) {
	s := calltest.New(t,
		calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")),
		calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	first, second, third := order("call_0", "refund", "A-1"), order("call_0", "get_order", "A-1"), order("call_1", "refund", "A-1")
	first.Labels, second.TurnId, third.ConversationId = map[string]string{"user": "u-9"}, "t2", "c2"
	for _, req := range []*sidecallv1.ExecuteToolRequest{first, second, third} {
		if res := s.Call(req); res.GetIsError() {
			t.Fatal(res)
		}
	}
	if res := s.Execute(t.Context(), call.NewRequest("other", order("call_0", "refund", "A-1"))); res.GetIsError() {
		t.Fatal(res)
	}
	for name, c := range map[string]struct {
		req  *sidecallv1.FindExecutionsRequest
		want string
	}{
		"an argument":       {byOrderID("A-1"), "c2/t1/call_1 c1/t2/call_0 c1/t1/call_0"},
		"a number":          {&sidecallv1.FindExecutionsRequest{Key: "cents", Value: "500"}, ""}, // no search key
		"its tool":          {&sidecallv1.FindExecutionsRequest{Key: "order_id", Value: "A-1", ToolName: "get_order"}, "c1/t2/call_0"},
		"its conversation":  {&sidecallv1.FindExecutionsRequest{Key: "order_id", Value: "A-1", ConversationId: "c2"}, "c2/t1/call_1"},
		"an id":             {&sidecallv1.FindExecutionsRequest{ToolUseId: "call_0"}, "c1/t2/call_0 c1/t1/call_0"},
		"a label":           {&sidecallv1.FindExecutionsRequest{Label: "user", LabelValue: "u-9"}, "c1/t1/call_0"},
		"a conversation":    {&sidecallv1.FindExecutionsRequest{ConversationId: "c1"}, "c1/t2/call_0 c1/t1/call_0"},
		"since":             {&sidecallv1.FindExecutionsRequest{ConversationId: "c1", Since: timestamppb.New(time.Now().Add(time.Hour))}, ""},
		"one of a page":     {&sidecallv1.FindExecutionsRequest{ConversationId: "c1", PageSize: 1}, "c1/t2/call_0"},
		"a key that is not": {&sidecallv1.FindExecutionsRequest{Key: "order", Value: "A-1"}, ""},
	} {
		res := find(t, s, c.req)
		var got []string
		for _, one := range res.GetExecutions() {
			got = append(got, one.GetConversationId()+"/"+one.GetTurnId()+"/"+one.GetToolUseId())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
		if indexed := name != "a number" && name != "a key that is not"; indexed == (len(res.GetSearchKeys()) > 0) {
			t.Errorf("%s: search keys %q", name, res.GetSearchKeys())
		}
	}
	page := find(t, s, &sidecallv1.FindExecutionsRequest{ConversationId: "c1", PageSize: 1})
	next := find(t, s, &sidecallv1.FindExecutionsRequest{ConversationId: "c1", PageSize: 1, PageToken: page.GetNextPageToken()})
	if len(next.GetExecutions()) != 1 || next.GetExecutions()[0].GetTurnId() != "t1" {
		t.Errorf("the second page is %v", next)
	}
}

// An id that every conversation has is found in each of them, on the first page.
func TestAnIdOfManyConversationsIsFoundInOne(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")))
	for i := range 2_100 {
		req := order("call_0", "refund", "A-1")
		req.ConversationId = fmt.Sprint("c", i)
		s.Call(req)
	}
	found := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "call_0", ConversationId: "c0"}).GetExecutions()
	if len(found) != 1 || found[0].GetConversationId() != "c0" {
		t.Errorf("found %v", found)
	}
}

// A call is found by each of its arguments and labels, however many it has of them.
func TestACallIsFoundByAllThatItHas(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), func(r *catalog.Route) { r.Tool.InputSchema = json.RawMessage(`{"type":"object"}`) }))
	route, _ := s.Catalog.Snapshot().Lookup("refund")
	var err error
	if route.Search, err = failures.NewTargeting([]string{"skus", "more", "order_id"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	req := calltest.Request("toolu_0", "refund")
	req.Labels = map[string]string{}
	for i := range 16 {
		req.Labels[fmt.Sprint("label-", i)] = "x"
	}
	skus := make([]string, 20)
	for i := range skus {
		skus[i] = fmt.Sprintf("sku-%d", i)
	}
	listed, err := json.Marshal(skus)
	if err != nil {
		t.Fatal(err)
	}
	req.ArgumentsJson = fmt.Sprintf(`{"order_id":"A-77","skus":%s,"more":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`, listed)
	if res := s.Call(req); res.GetIsError() {
		t.Fatal(res)
	}
	for _, by := range []*sidecallv1.FindExecutionsRequest{byOrderID("A-77"), {Key: "skus", Value: "sku-19"}, {Label: "label-9", LabelValue: "x"}} {
		if found := find(t, s, by).GetExecutions(); len(found) != 1 {
			t.Errorf("%v: found %v", by, found)
		}
	}
}

func TestWrongSearches(t *testing.T) {
	s := calltest.New(t)
	for _, c := range []struct {
		req  *sidecallv1.FindExecutionsRequest
		want string
	}{
		{&sidecallv1.FindExecutionsRequest{}, "key: nothing is named"},
		{&sidecallv1.FindExecutionsRequest{Value: "A-1"}, "value: needs key"},
		{&sidecallv1.FindExecutionsRequest{Key: "order_id"}, "value: is required"},
		{&sidecallv1.FindExecutionsRequest{LabelValue: "u"}, "label_value: needs label"},
		{&sidecallv1.FindExecutionsRequest{Key: "order_id", Value: "A-1", ToolUseId: "x"}, "one of them"},
		{&sidecallv1.FindExecutionsRequest{ToolUseId: "x", PageSize: 1001}, "page_size: 1001"},
		{&sidecallv1.FindExecutionsRequest{ToolUseId: "x", PageSize: -1}, "page_size: -1"},
		{&sidecallv1.FindExecutionsRequest{ToolUseId: "x", PageToken: "!"}, "page_token"},
	} {
		_, err := operator(s).FindExecutions(t.Context(), c.req)
		wantStatus(t, err, codes.InvalidArgument, c.want)
	}
}

// What is kept of a call for people: what was sent but for what is sensitive, what the upstream
// calls it, how often it was replayed.
func TestTheEvidenceOfACall(t *testing.T) {
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte("ok"), Header: map[string]string{"x-request-id": "up-1\x1b[2J"}}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "pay", tool.Keyed, b, func(r *catalog.Route) {
		r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"order_id":{"type":"string"},"pin":{"type":"string","writeOnly":true},"note":{"type":"string"}}}`)
		r.Secrets = redact.New("s3cr3t-token")
		var err error
		if r.Search, err = failures.NewTargeting([]string{"pin"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}))
	route, _ := s.Catalog.Snapshot().Lookup("pay")
	targeting, err := failures.NewTargeting([]string{"pin"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	route.Search = targeting
	req := calltest.Request("toolu_1", "pay")
	req.PromptId, req.Labels = "p1", map[string]string{"user": "u-9"}
	req.ArgumentsJson = `{"pin":"4711","order_id":"A-1","note":"with s3cr3t-token"}`
	for range 3 {
		if res := s.Call(req); res.GetIsError() {
			t.Fatal(res)
		}
	}
	found := find(t, s, &sidecallv1.FindExecutionsRequest{Key: "pin", Value: "4711"}).GetExecutions()
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	details := found[0].GetDetails()
	if got, want := details.GetArgumentsJson(), `{"note":"with (redacted)","order_id":"A-1","pin":"(redacted)"}`; got != want || details.GetArgumentsCut() {
		t.Errorf("sent %s, want %s", got, want)
	}
	if details.GetPromptId() != "p1" || details.GetLabels()["user"] != "u-9" || details.GetUpstreamId() != "up-1" {
		t.Errorf("details %v", details)
	}
	if found[0].GetIdempotencyKey() == "" || found[0].GetReplays() != 2 || found[0].GetExecution().GetResult().GetContent() != "ok" || found[0].GetExecution().GetOwner() == "" {
		t.Errorf("evidence %v", found[0])
	}

	long := calltest.Request("toolu_2", "pay")
	long.ArgumentsJson = `{"note":"` + strings.Repeat("é", 4000) + `"}`
	s.Call(long)
	if details := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_2"}).GetExecutions()[0].GetDetails(); !details.GetArgumentsCut() || len(details.GetArgumentsJson()) > 4<<10 {
		t.Errorf("of long arguments %d bytes are kept", len(details.GetArgumentsJson()))
	}
	s.Limit(func(l *catalog.Limits) { l.KeepArguments = false })
	s.Call(calltest.Request("toolu_3", "pay"))
	if details := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_3"}).GetExecutions()[0].GetDetails(); details.GetArgumentsJson() != "" {
		t.Errorf("with keep_arguments: none %v is kept", details)
	}
}

// Whoever asks for a call without its turn is told which turn it has.
func TestACallIsLookedUpInAnotherTurn(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")))
	s.Call(calltest.Request("toolu_1", "refund"))
	_, err := service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", ToolUseId: "toolu_1"})
	wantStatus(t, err, codes.NotFound, `turn_id "t1"`, "is done")
	for i := range 2 * 20 { // an id that others have too, later
		req := calltest.Request("toolu_1", "refund")
		req.ConversationId = fmt.Sprint("another ", i)
		s.Call(req)
	}
	_, err = service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", ToolUseId: "toolu_1"})
	wantStatus(t, err, codes.NotFound, `turn_id "t1"`, "is done")
	_, err = service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c2", ToolUseId: "toolu_1"})
	wantStatus(t, err, codes.NotFound, "never started here")
}

// What has happened is listed with the calls that undo it, the latest first.
func TestWhatHasHappenedCanBeUndone(t *testing.T) {
	undo, err := interpret.CompileArguments(map[string]string{"refund_id": "result.id", "order_id": "args.order_id"})
	if err != nil {
		t.Fatal(err)
	}
	compensated := func(r *catalog.Route) { r.Compensation = &catalog.Compensation{Tool: "cancel", Args: undo} }
	made := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		switch in.CallID.ID {
		case "toolu_odd":
			return tool.Reply{Text: []byte("{}"), JSON: true}, nil
		case "toolu_ask": // a round that only asks has done nothing that is to be undone
			return tool.Reply{Text: []byte(`{"id":"r-78"}`), JSON: true, InputRequired: []byte("{}")}, nil
		}
		return tool.Reply{Text: []byte(`{"id":"r-77"}`), JSON: true}, nil
	}}
	open := func(r *catalog.Route) {
		r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"refund_id":{"type":"string"},"order_id":{"type":"string"}}}`)
	}
	s := calltest.New(t,
		calltest.NewRoute(t, "refund", tool.NonIdempotent, made, compensated),
		calltest.NewRoute(t, "cancel", tool.NonIdempotent, calltest.Answers("cancelled"), open),
		calltest.NewRoute(t, "mail", tool.NonIdempotent, calltest.Answers("sent")),
		calltest.NewRoute(t, "lose", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), compensated),
		calltest.NewRoute(t, "miss", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.NotFound), compensated),
		calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	for _, c := range []struct{ id, tool, prompt string }{
		{"toolu_0", "refund", "p0"},
		{"toolu_1", "refund", "p1"}, {"toolu_2", "mail", "p1"}, {"toolu_3", "lose", "p1"}, {"toolu_4", "miss", "p1"}, {"toolu_5", "get_order", "p1"}, {"toolu_ask", "refund", "p1"}, {"toolu_odd", "refund", "p1"},
	} {
		req := calltest.Request(c.id, c.tool)
		req.PromptId = c.prompt
		s.Call(req)
	}
	ended, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Conversation: "c1", ID: "p1"}, "end_turn")
	if err != nil || ended.GetEffectsIncomplete() {
		t.Fatalf("%v, %v", ended, err)
	}
	var got []string
	for _, effect := range ended.GetEffects() {
		got = append(got, fmt.Sprintf("%s %s unknown:%v %s", effect.GetToolUseId(), effect.GetUndo().GetArgumentsJson(), effect.GetUnknown(), effect.GetNotUndoable()))
	}
	want := []string{
		`toolu_odd  unknown:false compensate_with.args.refund_id: `,
		`toolu_3  unknown:true it may have run`,
		`toolu_2  unknown:false its tool does not say how (compensate_with)`,
		`toolu_1 {"order_id":"A-1","refund_id":"r-77"} unknown:false `,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	plan := ended.GetEffects()[3].GetUndo()
	if plan.GetToolName() != "cancel" || plan.GetConversationId() != "c1" || plan.GetTurnId() != "t1" {
		t.Errorf("the plan is %v", plan)
	}
	sent := &sidecallv1.ExecuteToolRequest{
		ToolUseId: plan.GetToolUseId(), ToolName: plan.GetToolName(), ArgumentsJson: plan.GetArgumentsJson(), ConversationId: plan.GetConversationId(), TurnId: plan.GetTurnId(),
	}
	if first, again := s.Call(sent), s.Call(sent); first.GetIsError() || !again.GetReplayed() {
		t.Errorf("sent twice it is %v, %v", first, again)
	}
	undone, err := operator(s).PlanUndo(t.Context(), &sidecallv1.PlanUndoRequest{ConversationId: "c1", ToolUseId: "toolu_1"})
	if err != nil || len(undone.GetEffects()) != 1 || !undone.GetEffects()[0].GetUndone() {
		t.Errorf("undone: %v, %v", undone, err)
	}
	all, err := operator(s).PlanUndo(t.Context(), &sidecallv1.PlanUndoRequest{ConversationId: "c1"})
	if err != nil || len(all.GetEffects()) != 5 {
		t.Errorf("of all prompts: %v, %v", all, err)
	}
	for _, c := range []struct {
		req  *sidecallv1.PlanUndoRequest
		code codes.Code
		want string
	}{
		{&sidecallv1.PlanUndoRequest{}, codes.InvalidArgument, "conversation_id: is required"},
		{&sidecallv1.PlanUndoRequest{ConversationId: "c9"}, codes.NotFound, "no call of the conversation"},
		{&sidecallv1.PlanUndoRequest{ConversationId: "c1", ToolUseId: "toolu_3"}, codes.FailedPrecondition, "Find out what became of it"},
		{&sidecallv1.PlanUndoRequest{ConversationId: "c1", ToolUseId: "toolu_5"}, codes.FailedPrecondition, "has had no effect"},
		{&sidecallv1.PlanUndoRequest{ConversationId: "c1", ToolUseId: "toolu_9"}, codes.NotFound, "is known"},
	} {
		_, err := operator(s).PlanUndo(t.Context(), c.req)
		wantStatus(t, err, c.code, c.want)
	}
}
