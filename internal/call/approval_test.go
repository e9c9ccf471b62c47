package call_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

const stateHeld = sidecallv1.ExecutionState_EXECUTION_STATE_HELD

// asksFirst has a person asked before a call, by a condition.
func asksFirst(t *testing.T, when string) func(*catalog.Route) {
	t.Helper()
	approval, err := interpret.CompileApproval(when)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *catalog.Route) { r.Approval, r.Tool.Policy.ApprovalTTL = approval, time.Hour }
}

// confirms has a person asked after so many failures.
func confirms(after int) func(*catalog.Route) {
	return func(r *catalog.Route) { r.Tool.Policy.ConfirmAfter, r.Tool.Policy.ApprovalTTL = after, time.Hour }
}

func (o byAnn) ApproveExecution(ctx context.Context, req *sidecallv1.ApproveExecutionRequest) (*sidecallv1.ApproveExecutionResponse, error) {
	return o.Operator.ApproveExecution(isAnn(ctx), req)
}

func (o byAnn) DenyExecution(ctx context.Context, req *sidecallv1.DenyExecutionRequest) (*sidecallv1.DenyExecutionResponse, error) {
	return o.Operator.DenyExecution(isAnn(ctx), req)
}

// approval is a request that allows toolu_1 of the tests' conversation.
func approval(change ...func(*sidecallv1.ApproveExecutionRequest)) *sidecallv1.ApproveExecutionRequest {
	req := &sidecallv1.ApproveExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1", DecidedBy: "ada", Reason: "the customer has called"}
	for _, f := range change {
		f(req)
	}
	return req
}

func denial() *sidecallv1.DenyExecutionRequest {
	return &sidecallv1.DenyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1", DecidedBy: "ada", Reason: "not this one"}
}

func approve(t *testing.T, s *calltest.Sidecar) {
	t.Helper()
	if _, err := operator(s).ApproveExecution(t.Context(), approval()); err != nil {
		t.Fatal(err)
	}
}

// heldCalls are the calls that an operator is shown.
func heldCalls(t *testing.T, s *calltest.Sidecar) []*sidecallv1.HeldExecution {
	t.Helper()
	page, err := operator(s).ListHeld(t.Context(), &sidecallv1.ListHeldRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return page.GetExecutions()
}

func refund(id string) *sidecallv1.ExecuteToolRequest {
	req := calltest.Request(id, "refund")
	req.PromptId, req.ArgumentsJson = "p1", `{"order_id":"A-1","cents":100001}`
	return req
}

// A call is held, shown, allowed, and then runs once under the id that it had.
func TestACallIsHeldUntilAPersonAllowsIt(t *testing.T) {
	upstream := calltest.Answers(`"refunded"`)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "args.cents > 100000")))
	s.Limit(func(l *catalog.Limits) { l.KeepArguments = true })
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 1})

	small := refund("toolu_0")
	small.PromptId, small.ArgumentsJson = "p0", `{"order_id":"A-1","cents":100000}`
	if res := s.Call(small); res.GetIsError() || res.GetHold() != nil || res.GetApproval() != nil {
		t.Fatalf("of a small one nobody need be asked: %v", res)
	}
	for range 3 {
		res := s.Call(refund("toolu_1"))
		if calltest.Code(res) != tool.CodeApprovalRequired || res.GetHold().GetReason() != "approve_when: args.cents > 100000" ||
			res.GetHold().GetApproved() || !res.GetRecorded() || res.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD {
			t.Fatalf("held: %v", res)
		}
		until := res.GetHold().GetExpiresAt().AsTime().Format(time.RFC3339)
		for _, want := range []string{"refund", "args.cents > 100000", until, "Nothing was sent"} {
			if !strings.Contains(res.GetContent(), want) {
				t.Errorf("%q is missing in %s", want, res.GetContent())
			}
		}
	}
	shown := heldCalls(t, s)
	if len(shown) != 1 || shown[0].GetDetails().GetArgumentsJson() != `{"cents":100001,"order_id":"A-1"}` || shown[0].GetDetails().GetPromptId() != "p1" ||
		shown[0].GetExecution().GetState() != stateHeld || shown[0].GetExecution().GetAttempts() != 0 {
		t.Fatalf("listed: %v", shown)
	}
	if n := upstream.Calls.Load(); n != 1 {
		t.Fatalf("%d calls were sent, of which one was small", n)
	}
	allowed, err := operator(s).ApproveExecution(t.Context(), approval(func(r *sidecallv1.ApproveExecutionRequest) {
		r.Hold, r.Fingerprint = shown[0].GetExecution().GetOwner(), shown[0].GetFingerprint()
	}))
	if e := allowed.GetExecution(); err != nil || e.GetState() != stateHeld || e.GetApproval().GetBy() != "ann" || e.GetApproval().GetClaimedBy() != "ada" ||
		!e.GetResult().GetHold().GetApproved() {
		t.Fatalf("allowed: %v, %v", allowed, err)
	}
	if n := upstream.Calls.Load(); n != 1 {
		t.Fatal("it was sent before its program sent it again")
	}
	res := s.Call(refund("toolu_1"))
	if res.GetIsError() || res.GetReplayed() || res.GetApproval().GetReason() != "the customer has called" || res.GetBudget().GetToolCallsUsed() != 1 {
		t.Fatalf("it runs: %v", res)
	}
	if again := s.Call(refund("toolu_1")); !again.GetReplayed() || again.GetApproval().GetClaimedBy() != "ada" || upstream.Calls.Load() != 2 {
		t.Fatalf("it runs once: %v, %d calls", again, upstream.Calls.Load())
	}
	if left := heldCalls(t, s); len(left) != 0 {
		t.Errorf("still listed: %v", left)
	}
}

// What was allowed is allowed for the arguments that were seen, and for no others.
func TestOtherArgumentsThanWereAllowed(t *testing.T) {
	upstream := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")))
	s.Call(refund("toolu_1"))
	fingerprint := heldCalls(t, s)[0].GetFingerprint()
	approve(t, s)
	changed := refund("toolu_1")
	changed.ArgumentsJson = `{"order_id":"A-1","cents":999999}`
	if res := s.Call(changed); calltest.Code(res) != tool.CodeIDReused || upstream.Calls.Load() != 0 {
		t.Fatalf("under the id: %v", res)
	}
	changed.ToolUseId = "toolu_2"
	if res := s.Call(changed); calltest.Code(res) != tool.CodeApprovalRequired || upstream.Calls.Load() != 0 {
		t.Fatalf("under another id: %v", res)
	}
	_, err := operator(s).ApproveExecution(t.Context(), approval(func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId, r.Fingerprint = "toolu_2", fingerprint }))
	wantStatus(t, err, codes.FailedPrecondition, "fingerprint: the call is held with other arguments")
	if res := s.Call(refund("toolu_1")); res.GetIsError() || upstream.Calls.Load() != 1 {
		t.Fatalf("as it was allowed: %v", res)
	}
}

// What a changed schema reads otherwise is not what somebody has seen.
func TestArgumentsThatAreReadOtherwiseThanTheyWereAllowed(t *testing.T) {
	upstream := calltest.Answers("ok")
	schema := func(cents string) func(*catalog.Route) {
		return func(r *catalog.Route) {
			r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"string"},"cents":` + cents + `},"required":["order_id"]}`)
		}
	}
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always"), schema(`{"type":["integer","null"]}`)))
	req := refund("toolu_1")
	req.ArgumentsJson = `{"order_id":"A-1","cents":null}`
	s.Call(req)
	approve(t, s)
	after := s.Beside(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always"), schema(`{"type":"integer"}`)))
	if res := after.Call(req); calltest.Code(res) != tool.CodeIDReused || upstream.Calls.Load() != 0 {
		t.Fatalf("%v", res)
	}
	if res := s.Call(req); res.GetIsError() || upstream.Calls.Load() != 1 {
		t.Fatalf("as it was read then: %v", res)
	}
}

// So are those beside a reference.
func TestArgumentsBesideAReferenceThatAreReadOtherwise(t *testing.T) {
	r := newReferring(t)
	refund := func(cents string) *catalog.Route {
		return calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always"), func(r *catalog.Route) {
			r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"string"},"cents":` + cents + `},"required":["order_id"]}`)
		})
	}
	s, after := r.Beside(t, refund(`{"type":["integer","null"]}`)), r.Beside(t, refund(`{"type":"integer"}`))
	req := calltest.Request("toolu_1", "refund")
	req.ArgumentsJson = fmt.Sprintf(`{"order_id":{"$output_ref":%q,"path":"$.items[0].id"},"cents":null}`, r.ref)
	if res := s.Call(req); calltest.Code(res) != tool.CodeApprovalRequired {
		t.Fatal(res)
	}
	approve(t, s)
	if res := after.Call(req); calltest.Code(res) != tool.CodeIDReused {
		t.Fatalf("%v", res)
	}
	if res := s.Call(req); res.GetIsError() || res.GetReplayed() {
		t.Fatalf("as it was read then: %v", res)
	}
	if res := after.Call(req); !res.GetReplayed() {
		t.Fatalf("once it has run: %v", res)
	}
}

// Who has allowed a call has decided that it is no loop.
func TestWhatWasAllowedIsNoLoop(t *testing.T) {
	upstream := calltest.Fails(calltest.Always, calltest.NotFound)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")))
	watch, err := guard.New(guard.Thresholds{})
	if err != nil {
		t.Fatal(err)
	}
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, Guard: watch})
	for i := range 8 {
		id := fmt.Sprint("toolu_", i)
		s.Call(refund(id))
		if _, err := operator(s).ApproveExecution(t.Context(), approval(func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId = id })); err != nil {
			t.Fatal(err)
		}
		if res := s.Call(refund(id)); calltest.Code(res) != tool.CodeNotFound {
			t.Fatalf("the call %d: %v", i, res)
		}
	}
}

// Denied is final, and told with who has done it and why.
func TestACallIsDenied(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *calltest.Sidecar){
		"at once": func(*testing.T, *calltest.Sidecar) {}, "after it was allowed": approve,
	} {
		t.Run(name, func(t *testing.T) {
			upstream := calltest.Answers("ok")
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")))
			s.Call(refund("toolu_1"))
			before(t, s)
			denied, err := operator(s).DenyExecution(t.Context(), denial())
			if err != nil || denied.GetExecution().GetState() != stateDone {
				t.Fatal(denied, err)
			}
			for range 2 {
				res := s.Call(refund("toolu_1"))
				if calltest.Code(res) != tool.CodePermissionDenied || !strings.Contains(res.GetError().GetConstraint(), "denied by ada (ann): not this one") ||
					!res.GetReplayed() || res.GetResolution().GetBy() != "ann" {
					t.Fatalf("%v", res)
				}
			}
			found := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions()
			if len(found) != 1 || found[0].GetVerdict() != sidecallv1.Verdict_VERDICT_NOT_RUN || !strings.Contains(found[0].GetExplanation(), "denied by ada (ann): not this one") {
				t.Errorf("whether it ran is answered %v", found)
			}
			_, err = operator(s).ApproveExecution(t.Context(), approval())
			wantStatus(t, err, codes.FailedPrecondition, "is done already")
			if n := upstream.Calls.Load(); n != 0 {
				t.Errorf("%d calls were sent", n)
			}
		})
	}
}

// A hold that is over is asked for anew, whether or not somebody had allowed it; who decides of the
// old one is told so.
func TestAHoldExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := calltest.Answers("ok")
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Keyed, upstream, asksFirst(t, "always")))
		told := notified(t, s)
		first := s.Call(refund("toolu_1")).GetHold()
		s.Call(refund("toolu_1"))
		owner := heldCalls(t, s)[0].GetExecution().GetOwner()
		time.Sleep(time.Hour + time.Millisecond)
		if left := heldCalls(t, s); len(left) != 0 {
			t.Errorf("over, and listed: %v", left)
		}
		_, err := operator(s).ApproveExecution(t.Context(), approval())
		wantStatus(t, err, codes.FailedPrecondition, "is over: nothing was sent; sent again it is held anew")
		second := s.Call(refund("toolu_1")).GetHold()
		if !second.GetExpiresAt().AsTime().After(first.GetExpiresAt().AsTime()) {
			t.Errorf("held anew until %v, at first until %v", second.GetExpiresAt(), first.GetExpiresAt())
		}
		_, err = operator(s).ApproveExecution(t.Context(), approval(func(r *sidecallv1.ApproveExecutionRequest) { r.Hold = owner }))
		wantStatus(t, err, codes.FailedPrecondition, "hold: the call is held anew")

		time.Sleep(59 * time.Minute)
		approve(t, s)
		time.Sleep(time.Hour + time.Millisecond) // what is allowed counts for as long as a hold does
		if res := s.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeApprovalRequired {
			t.Fatalf("allowed an hour ago: %v", res)
		}
		approve(t, s)
		time.Sleep(59 * time.Minute)
		if res := s.Call(refund("toolu_1")); res.GetIsError() || upstream.Calls.Load() != 1 {
			t.Fatalf("allowed in time: %v", res)
		}
		if ids := told(); len(ids) != 3 { // each hold once
			t.Errorf("a person was told of %q", ids)
		}
	})
}

// notified returns the ids of the events that a webhook has been told of calls.
func notified(t *testing.T, s *calltest.Sidecar) (told func() []string) {
	t.Helper()
	var ids []string
	n := notify.New(notify.Options{
		URL: "http://hooks.test", Kinds: []notify.Kind{notify.Held, notify.Unknown},
		Transport: hook(func(r *http.Request) { ids = append(ids, r.Header.Get("Webhook-Id")) }),
	})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go n.Run(ctx)
	s.With(func(p *call.Parts) { p.Notify = n })
	return func() []string {
		synctest.Wait()
		return ids
	}
}

// hook is a webhook that takes everything.
type hook func(*http.Request)

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	h(r)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
}

// What cannot be told of a condition is asked.
func TestAConditionThatCannotBeEvaluatedHolds(t *testing.T) {
	upstream := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "args.cents > 100000")))
	req := refund("toolu_1")
	req.ArgumentsJson = `{"order_id":"A-1"}`
	res := s.Call(req)
	if calltest.Code(res) != tool.CodeApprovalRequired || !strings.Contains(res.GetHold().GetReason(), "cannot be evaluated") || upstream.Calls.Load() != 0 {
		t.Fatalf("%v", res)
	}
}

// The same id may run again without a question when what was allowed has provably not run.
func TestWhatWasAllowedAndDidNotRunStaysAllowed(t *testing.T) {
	upstream := calltest.Fails(3, calltest.Refused)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")))
	s.Call(refund("toolu_1"))
	approve(t, s)
	if res := s.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeDependencyUnavailable || s.State("toolu_1") != dedupe.NotRun || res.GetApproval() == nil {
		t.Fatalf("%v", res)
	}
	if res := s.Call(refund("toolu_1")); res.GetIsError() || res.GetApproval().GetClaimedBy() != "ada" {
		t.Fatalf("%v", res)
	}
}

// No person is asked for an effect that has happened.
func TestNobodyIsAskedForADuplicateEffect(t *testing.T) {
	keyed := func(r *catalog.Route) {
		r.Tool.Policy.EffectKey = tool.EffectKey{Args: []string{"order_id"}, Window: time.Hour}
	}
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always"), keyed))
	s.Call(refund("toolu_1"))
	approve(t, s)
	s.Call(refund("toolu_1"))
	if res := s.Call(refund("toolu_2")); calltest.Code(res) != tool.CodeDuplicateEffect || s.State("toolu_2") != dedupe.Absent {
		t.Fatalf("%v", res)
	}
	again := refund("toolu_2")
	again.AllowDuplicateEffect = true
	if res := s.Call(again); calltest.Code(res) != tool.CodeApprovalRequired {
		t.Fatalf("%v", res)
	}
}

// After so many failures in the prompt a person is asked before the next call, and nothing of that
// is counted.
func TestAPersonIsAskedAfterFailures(t *testing.T) {
	upstream := calltest.Fails(calltest.Always, calltest.NotFound)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, confirms(2)))
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 10})
	other := func(id, order string) *sidecallv1.ExecuteToolRequest {
		req := refund(id)
		req.ArgumentsJson = `{"order_id":"` + order + `"}`
		return req
	}
	for i, id := range []string{"toolu_a", "toolu_b"} {
		if res := s.Call(other(id, id)); calltest.Code(res) != tool.CodeNotFound {
			t.Fatalf("failure %d: %v", i, res)
		}
	}
	elsewhere := other("toolu_c", "c")
	elsewhere.PromptId = "p2"
	if res := s.Call(elsewhere); calltest.Code(res) != tool.CodeNotFound {
		t.Fatalf("another prompt: %v", res)
	}
	for range 3 {
		res := s.Call(refund("toolu_1"))
		if calltest.Code(res) != tool.CodeApprovalRequired || !strings.Contains(res.GetHold().GetReason(), "require_confirmation_after: 2") || res.GetHold().GetExpiresAt() == nil {
			t.Fatalf("held: %v", res)
		}
		if used := res.GetBudget(); used != nil && used.GetToolCallsUsed() != 2 {
			t.Errorf("%d calls are counted, want 2", used.GetToolCallsUsed())
		}
	}
	if n := upstream.Calls.Load(); n != 3 {
		t.Fatalf("%d calls were sent, want 3", n)
	}
	approve(t, s)
	if res := s.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeNotFound || res.GetApproval() == nil || upstream.Calls.Load() != 4 {
		t.Fatalf("allowed: %v", res)
	}
	if res := s.Call(other("toolu_d", "d")); calltest.Code(res) != tool.CodeApprovalRequired {
		t.Fatalf("the next one is asked for too: %v", res)
	}
}

// How many failures are too many is what the config says now, of all that there were.
func TestFailuresCountWhateverTheirNumberMeantThen(t *testing.T) {
	upstream := calltest.Fails(calltest.Always, calltest.NotFound)
	route := func(after int) *catalog.Route {
		return calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, confirms(after))
	}
	s := calltest.New(t, route(1))
	for _, step := range []struct {
		after int
		id    string
		held  bool
	}{{1, "toolu_0", false}, {1, "toolu_1", true}, {3, "toolu_2", false}, {3, "toolu_3", true}, {2, "toolu_4", true}, {4, "toolu_4", true}, {4, "toolu_5", false}} {
		s.Generation.Set(catalog.ConfigSource, []*catalog.Route{route(step.after)})
		req := refund(step.id)
		req.ArgumentsJson = fmt.Sprintf(`{"order_id":%q}`, step.id)
		res := s.Call(req)
		if held := res.GetHold() != nil; held != step.held || !held && calltest.Code(res) != tool.CodeNotFound {
			t.Errorf("%+v: %v", step, res)
		}
		if step.id == "toolu_1" { // which is the second to fail
			approve(t, s)
			s.Call(req)
		}
	}
}

// A call that a person has denied costs its prompt nothing, whoever was asked when.
func TestWhatIsDeniedIsNotCounted(t *testing.T) {
	upstream := calltest.Fails(calltest.Always, calltest.NotFound)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, confirms(1)), calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("ok")))
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 10})
	first := refund("toolu_a")
	first.ArgumentsJson = `{"order_id":"a"}`
	s.Call(first)
	if res := s.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeApprovalRequired {
		t.Fatalf("held: %v", res)
	}
	if _, err := operator(s).DenyExecution(t.Context(), denial()); err != nil {
		t.Fatal(err)
	}
	look := refund("toolu_b")
	look.ToolName = "look"
	if res := s.Call(look); res.GetBudget().GetToolCallsUsed() != 2 {
		t.Errorf("%v are used, want the one that failed and this one", res.GetBudget())
	}
}

// What a tool no longer asks for is not held.
func TestAReloadThatAsksNobody(t *testing.T) {
	upstream := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")))
	s.Call(refund("toolu_1"))
	after := s.Beside(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream))
	if found := find(t, after, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions(); len(found) != 1 || !strings.HasPrefix(found[0].GetAdvice(), "Its tool asks nobody any more: sent again with the same ids it runs") {
		t.Errorf("found %v", found)
	}
	if res := after.Call(refund("toolu_1")); res.GetIsError() || upstream.Calls.Load() != 1 {
		t.Fatalf("%v", res)
	}
}

// A conversation is resumed with what is held, and what is allowed, as what has not run.
func TestWhatIsHeldIsPending(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always")))
	s.Call(refund("toolu_1"))
	for _, allowed := range []bool{false, true} {
		state, res, err := s.Records().Pending(t.Context(), call.NewRequest("", refund("toolu_1")), time.Minute)
		if err != nil || state != sidecallv1.Pending_PENDING_NOT_RUN || calltest.Code(res) != tool.CodeApprovalRequired || res.GetHold().GetApproved() != allowed {
			t.Errorf("allowed %v: %v, %v, %v", allowed, state, res, err)
		}
		if !allowed {
			approve(t, s)
		}
	}
}

// Who decides of what is not held is told what it is.
func TestDecisionsThatCannotBeMade(t *testing.T) {
	s := calltest.New(t,
		calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always")),
		calltest.NewRoute(t, "charge", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)),
		calltest.NewRoute(t, "order", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused)))
	o := operator(s)
	for _, id := range []string{"charge", "order"} {
		s.Call(calltest.Request(id, id))
	}
	s.Call(refund("toolu_1"))
	for name, c := range map[string]struct {
		change func(*sidecallv1.ApproveExecutionRequest)
		code   codes.Code
		want   string
	}{
		"no id":               {func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId = "" }, codes.InvalidArgument, "tool_use_id"},
		"no name":             {func(r *sidecallv1.ApproveExecutionRequest) { r.DecidedBy = " \n" }, codes.InvalidArgument, "decided_by: is required"},
		"a long name":         {func(r *sidecallv1.ApproveExecutionRequest) { r.DecidedBy = strings.Repeat("é", 129) }, codes.InvalidArgument, "decided_by: 129 characters"},
		"no reason":           {func(r *sidecallv1.ApproveExecutionRequest) { r.Reason = "" }, codes.InvalidArgument, "reason: is required"},
		"a long reason":       {func(r *sidecallv1.ApproveExecutionRequest) { r.Reason = strings.Repeat("é", 501) }, codes.InvalidArgument, "reason: 501 characters"},
		"a short fingerprint": {func(r *sidecallv1.ApproveExecutionRequest) { r.Fingerprint = "ab" }, codes.InvalidArgument, "fingerprint: 2 characters"},
		"other arguments":     {func(r *sidecallv1.ApproveExecutionRequest) { r.Fingerprint = "000000000000" }, codes.FailedPrecondition, "fingerprint: the call is held with other arguments"},
		"another hold":        {func(r *sidecallv1.ApproveExecutionRequest) { r.Hold = "host-9.z" }, codes.FailedPrecondition, "hold: the call is held anew"},
		"never sent":          {func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId = "toolu_9" }, codes.NotFound, "never started here"},
		"unknown":             {func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId = "charge" }, codes.FailedPrecondition, "is unknown: it was sent"},
		"not run":             {func(r *sidecallv1.ApproveExecutionRequest) { r.ToolUseId = "order" }, codes.FailedPrecondition, "is not_run: nobody is asked"},
	} {
		_, err := o.ApproveExecution(t.Context(), approval(c.change))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.want) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.code, c.want)
		}
	}
	if s.State("toolu_1") != dedupe.Held {
		t.Fatal("a decision that could not be made was")
	}
	approve(t, s)
	_, err := o.ApproveExecution(t.Context(), approval())
	wantStatus(t, err, codes.FailedPrecondition, "allowed already, by ada (ann) (the customer has called)")
	_, err = o.ResolveExecution(t.Context(), resolution(stateDone))
	wantStatus(t, err, codes.FailedPrecondition, "is held: nothing was sent")
	s.Call(refund("toolu_1"))
	_, err = o.DenyExecution(t.Context(), denial())
	wantStatus(t, err, codes.FailedPrecondition, "is done already")
}

// A call that may have run before it was held waits for a person's word all the same.
func TestWhatIsHeldThoughItMayHaveRun(t *testing.T) {
	lost := calltest.Fails(calltest.Always, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Idempotent, lost))
	s.Call(refund("toolu_1"))
	after := s.Beside(t, calltest.NewRoute(t, "refund", tool.Idempotent, lost, asksFirst(t, "always")))
	if res := after.Call(refund("toolu_1")); calltest.Code(res) != tool.CodeApprovalRequired {
		t.Fatal(res)
	}
	found := find(t, after, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions()
	if len(found) != 1 || found[0].GetVerdict() != sidecallv1.Verdict_VERDICT_UNKNOWN || !strings.Contains(found[0].GetAdvice(), "Allow or deny it") {
		t.Errorf("found %v", found)
	}
}
