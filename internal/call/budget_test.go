package call_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// budgeted is a sidecar whose tool refund answers with a text, in a profile.
func budgeted(t *testing.T, b *calltest.Backend, p catalog.Profile) *calltest.Sidecar {
	t.Helper()
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	p.Name, p.Tools = "tight", []string{"*"}
	s.Profile(p)
	return s
}

// asked is a call of the profile, in the prompt p1.
func asked(id string, change ...func(*sidecallv1.ExecuteToolRequest)) *sidecallv1.ExecuteToolRequest {
	req := calltest.Request(id, "refund")
	req.Profile, req.PromptId = "tight", "p1"
	for _, f := range change {
		f(req)
	}
	return req
}

func wantBudget(t *testing.T, when string, res *sidecallv1.ExecuteToolResponse, calls, tokens int64) {
	t.Helper()
	if got := res.GetBudget(); got.GetToolCallsUsed() != calls || got.GetTokensUsed() != tokens {
		t.Errorf("%s: the budget is %v, want %d calls and %d tokens", when, got, calls, tokens)
	}
}

// A runaway loop ends at the ceiling, and is told to wrap up; what is not a new
// call of the prompt is charged to nobody.
func TestAPromptHasABudgetOfCalls(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("paid")
	s := budgeted(t, b, catalog.Profile{MaxCalls: 3, MaxTokens: 1000})
	for i := range int64(3) {
		res := s.Call(asked(fmt.Sprint(i)))
		if res.GetIsError() {
			t.Fatal(res)
		}
		wantBudget(t, "a call", res, i+1, i+1) // "paid" is a token
		if got := res.GetBudget(); got.GetToolCallsLimit() != 3 || got.GetTokensLimit() != 1000 || got.GetDeadline() != nil {
			t.Errorf("the limits are %v", got)
		}
	}
	refused := s.Call(asked("3"))
	e := refused.GetError()
	if calltest.Code(refused) != tool.CodeBudgetExceeded || e.GetConstraint() != "at most 3 tool calls per prompt" || e.GetReceived() != "3 were made" ||
		!strings.Contains(e.GetHint(), "Wrap up") || refused.GetRecovery().GetRetryable() || refused.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD {
		t.Errorf("beyond the ceiling: %v", refused)
	}
	wantBudget(t, "refused", refused, 3, 3)
	wantBudget(t, "a replay", s.Call(asked("2")), 3, 3)
	invalid := s.Call(asked("bad", func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{}` }))
	if calltest.Code(invalid) != tool.CodeInvalidArgs {
		t.Error(invalid)
	}
	wantBudget(t, "arguments that break the schema", invalid, 3, 3)
	if res := s.Call(asked("other prompt", func(r *sidecallv1.ExecuteToolRequest) { r.PromptId = "p2" })); res.GetIsError() {
		t.Errorf("the next prompt: %v", res)
	}
	for i := range 3 {
		if res := s.Call(asked(fmt.Sprint("no prompt ", i), func(r *sidecallv1.ExecuteToolRequest) { r.PromptId = "" })); res.GetIsError() {
			t.Errorf("the conversation as a prompt: %v", res)
		}
	}
	if res := s.Call(asked("no prompt 3", func(r *sidecallv1.ExecuteToolRequest) { r.PromptId = "" })); calltest.Code(res) != tool.CodeBudgetExceeded {
		t.Errorf("the conversation as a prompt has no ceiling: %v", res)
	}
	if res := s.Call(asked("unlimited", func(r *sidecallv1.ExecuteToolRequest) { r.Profile = "all" })); res.GetIsError() || res.GetBudget() != nil {
		t.Errorf("a profile without limits: %v", res)
	}
	elsewhere := asked("0")
	if res := s.Execute(t.Context(), call.NewRequest("another tenant", elsewhere)); res.GetIsError() || res.GetBudget().GetToolCallsUsed() != 1 {
		t.Errorf("another tenant's prompt of that name: %v", res)
	}
	if n := b.Calls.Load(); n != 3+1+3+1+1 {
		t.Errorf("the backend was asked %d times", n)
	}
}

// What did not run is given back.
func TestWhatDidNotRunIsNotCharged(t *testing.T) {
	t.Parallel()
	s := budgeted(t, calltest.Fails(1, calltest.TooMany), catalog.Profile{MaxCalls: 1})
	failed := s.Call(asked("1"))
	if calltest.Code(failed) != tool.CodeRateLimited {
		t.Fatal(failed)
	}
	wantBudget(t, "rejected before any work", failed, 0, 0)
	again := s.Call(asked("1"))
	if again.GetIsError() {
		t.Fatal(again)
	}
	wantBudget(t, "the same id again", again, 1, 0+1)
	if res := s.Call(asked("2")); calltest.Code(res) != tool.CodeBudgetExceeded {
		t.Errorf("got %v", res)
	}
	unknown := budgeted(t, calltest.Fails(calltest.Always, calltest.CutOff), catalog.Profile{MaxCalls: 1})
	if res := unknown.Call(asked("1")); calltest.Code(res) != tool.CodeOutcomeUnknown || res.GetBudget().GetToolCallsUsed() != 1 {
		t.Errorf("it may have run: %v", res)
	}
	end := dedupe.Settlement{Key: call.NewRequest("", asked("1")).Key, State: dedupe.NotRun, Resolves: true, Epoch: 1, Attempts: 1, Retention: time.Hour}
	record, err := unknown.Dedupe.Lookup(t.Context(), end.Key)
	if err != nil {
		t.Fatal(err)
	}
	end.Owner = record.Owner
	if _, err := unknown.Store.Settle(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if res := unknown.Call(asked("2")); calltest.Code(res) != tool.CodeOutcomeUnknown { // which is to say that it was sent
		t.Errorf("once somebody has said that it did not run: %v", res)
	}
}

// A batch that would cross the ceiling runs what fits.
func TestABatchThatStraddlesTheCeiling(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("paid")
	s := budgeted(t, b, catalog.Profile{MaxCalls: 5})
	var batch []call.Request
	for i := range 9 {
		batch = append(batch, call.NewRequest("", asked(fmt.Sprint(i))))
	}
	worked, refused := 0, 0
	for _, res := range s.ExecuteBatch(t.Context(), batch) {
		switch calltest.Code(res) {
		case "":
			worked++
		case tool.CodeBudgetExceeded:
			refused++
		default:
			t.Errorf("got %v", res)
		}
	}
	if worked != 5 || refused != 4 || b.Calls.Load() != 5 {
		t.Errorf("%d worked, %d were refused, the backend was asked %d times", worked, refused, b.Calls.Load())
	}
}

func TestAPromptHasABudgetOfTokens(t *testing.T) {
	t.Parallel()
	s := budgeted(t, calltest.Answers(strings.Repeat("long ", 40)), catalog.Profile{MaxTokens: 100}) // 50 tokens
	tokens := func(n int64) func(*sidecallv1.ExecuteToolRequest) {
		return func(r *sidecallv1.ExecuteToolRequest) { r.TokensUsed = n }
	}
	wantBudget(t, "estimated", s.Call(asked("1")), 1, 50)
	wantBudget(t, "reported, and estimated since", s.Call(asked("2", tokens(20))), 2, 70)
	if res := s.Call(asked("3", tokens(19))); calltest.Code(res) != tool.CodeInvalidArgs || res.GetError().GetField() != "tokens_used" ||
		res.GetError().GetConstraint() != "must not shrink within a prompt: 20 were reported before" {
		t.Errorf("a report that shrinks: %v", res)
	}
	if res := s.Call(asked("4", tokens(-1))); calltest.Code(res) != tool.CodeInvalidArgs || res.GetError().GetField() != "tokens_used" {
		t.Errorf("a negative report: %v", res)
	}
	wantBudget(t, "the last one", s.Call(asked("5", tokens(99))), 3, 149)
	refused := s.Call(asked("6", tokens(99)))
	if calltest.Code(refused) != tool.CodeBudgetExceeded || refused.GetError().GetReceived() != "149 were used" {
		t.Errorf("got %v", refused)
	}
}

func TestAPromptHasAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := budgeted(t, calltest.Answers("paid"), catalog.Profile{MaxDuration: time.Minute})
		begun := time.Now()
		res := s.Call(asked("1"))
		if got := res.GetBudget().GetDeadline(); got == nil || got.String() != timestamppb.New(begun.Add(time.Minute)).String() {
			t.Errorf("it ends at %v", got)
		}
		time.Sleep(time.Minute + time.Second)
		refused := s.Call(asked("2"))
		if calltest.Code(refused) != tool.CodeBudgetExceeded || refused.GetError().GetConstraint() != "at most 1m0s per prompt" {
			t.Errorf("got %v", refused)
		}
		if res := s.Call(asked("1")); res.GetIsError() || !res.GetReplayed() {
			t.Errorf("what is known is told after its end: %v", res)
		}
	})
}

func TestAPromptIsCountedWithinItsConversation(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("paid")
	s := budgeted(t, b, catalog.Profile{MaxCalls: 1})
	s.Limit(func(l *catalog.Limits) { l.RequireIDs = nil })
	adrift := s.Call(asked("1", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId = "" }))
	if calltest.Code(adrift) != tool.CodeInvalidArgs || adrift.GetError().GetField() != "conversation_id" || b.Calls.Load() != 0 {
		t.Errorf("a prompt of no conversation: %v", adrift)
	}
	for range 2 {
		free := s.Call(asked("free", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId, r.PromptId = "", "" }))
		if free.GetIsError() || free.GetBudget() != nil {
			t.Errorf("neither prompt nor conversation: %v", free)
		}
	}
}
