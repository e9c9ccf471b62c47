package call_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func asOncall(r *sidecallv1.ResolveExecutionRequest) { r.ResolvedBy = "oncall" }

// settle settles toolu_1, and returns the call as it is found then.
func settle(t *testing.T, s *calltest.Sidecar, as sidecallv1.ExecutionState, change ...func(*sidecallv1.ResolveExecutionRequest)) *sidecallv1.FoundExecution {
	t.Helper()
	if _, err := operator(s).ResolveExecution(t.Context(), resolution(as, change...)); err != nil {
		t.Fatal(err)
	}
	found := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions()
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	return found[0]
}

// What a model was told of a call stays with it when somebody settles it: word for word, with what
// was tried before and what was to be noticed.
func TestWhatTheModelWasToldStaysWhole(t *testing.T) {
	long := strings.Repeat("the ledger does not answer. ", 200)
	for name, constraint := range map[string]string{"short": "it is late", "long": long} {
		t.Run(name, func(t *testing.T) {
			lost := calltest.CutOff
			lost.Constraint = constraint
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(1, lost)))
			res := s.Call(calltest.Request("toolu_1", "refund"))
			told := provider.Text(res)
			if !strings.Contains(told, "\n\nRecovery context\n") || !strings.HasPrefix(told, res.GetContent()) {
				t.Fatalf("the model was told %q", told)
			}
			if kept := settle(t, s, stateDone).GetDetails().GetToldBefore(); kept != told {
				t.Errorf("it is kept as %q\nwant %q", kept, told)
			}
		})
	}
}

// A timeline has all that the model was told in words, and of a call that was settled since
// what it was told until then.
func TestATimelineHasAllThatWasTold(t *testing.T) {
	s, _ := lost(t)
	told := provider.Text(s.Call(calltest.Request("toolu_1", "refund")))
	for _, settled := range []bool{false, true} {
		if settled {
			settle(t, s, stateDone, asOncall)
		}
		all, _, err := s.Records().CallsOf(t.Context(), "", "c1")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		r := all[0]
		if got := r.Text; !settled && (got != told || r.ToldBefore != "" || r.Resolution != nil) {
			t.Errorf("told %q, want %q; %+v", got, told, r)
		}
		if settled && (r.ToldBefore != told || !strings.Contains(r.Text, "has happened") || r.Resolution.GetClaimedBy() != "oncall") {
			t.Errorf("settled: %+v, want %q", r, told)
		}
	}
}

// Whoever settles a call is named to the model by both of their names.
func TestTheModelIsToldWhoHasSettledIt(t *testing.T) {
	for _, isError := range []bool{false, true} {
		s, _ := lost(t)
		settle(t, s, stateDone, asOncall, func(r *sidecallv1.ResolveExecutionRequest) { r.IsError = isError })
		if again := s.Call(calltest.Request("toolu_1", "refund")); !strings.Contains(again.GetContent(), "by oncall (ann): the bank's statement") {
			t.Errorf("an error: %v, it is told %s", isError, again.GetContent())
		}
	}
}

// That a call was settled, by whom and why, is the first that is said of it. When it was is not
// when it ended.
func TestWhoHasSettledItIsSaidFirst(t *testing.T) {
	for as, verdict := range map[sidecallv1.ExecutionState]sidecallv1.Verdict{
		stateDone: sidecallv1.Verdict_VERDICT_RAN, stateNotRun: sidecallv1.Verdict_VERDICT_NOT_RUN,
	} {
		bubble(t, func(t *testing.T) {
			s, _ := lost(t)
			before := find(t, s, &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}).GetExecutions()[0].GetExecution()
			time.Sleep(time.Hour)
			found := settle(t, s, as, asOncall)
			name := strings.ToLower(strings.TrimPrefix(as.String(), "EXECUTION_STATE_"))
			if want := "it was settled as " + name + " by oncall (ann): the bank's statement shows it"; found.GetVerdict() != verdict || !strings.Contains(found.GetExplanation(), want) || strings.Contains(found.GetExplanation(), "it ended in") {
				t.Errorf("%v, %q; want %q", found.GetVerdict(), found.GetExplanation(), want)
			}
			e := found.GetExecution()
			if !e.GetFinishedAt().AsTime().Equal(before.GetFinishedAt().AsTime()) || e.GetResult().GetResolution().GetAt().AsTime().Sub(e.GetFinishedAt().AsTime()) < time.Hour {
				t.Errorf("it ended %v, and was settled %v; want %v", e.GetFinishedAt().AsTime(), e.GetResult().GetResolution().GetAt().AsTime(), before.GetFinishedAt().AsTime())
			}
			all, _, err := s.Records().CallsOf(t.Context(), "", "c1")
			if err != nil || !all[0].FinishedAt.Equal(before.GetFinishedAt().AsTime()) {
				t.Errorf("a timeline says that it ended %v: %v", all[0].FinishedAt, err)
			}
		})
	}
}

// What a settlement would tell the model can be read before it is made, and nothing is settled by
// that.
func TestASettlementIsShownBeforeItIsMade(t *testing.T) {
	for as, want := range map[sidecallv1.ExecutionState]string{stateDone: "by oncall (ann): the bank's statement shows it\nrefund r-77", stateNotRun: ""} {
		s, b := lost(t)
		said := func(r *sidecallv1.ResolveExecutionRequest) {
			if asOncall(r); as == stateDone {
				r.Content = "refund r-77"
			}
		}
		shown, err := operator(s).ResolveExecution(t.Context(), resolution(as, said, func(r *sidecallv1.ResolveExecutionRequest) { r.ValidateOnly = true }))
		if err != nil || shown.GetExecution().GetState() != as || !strings.HasSuffix(shown.GetExecution().GetResult().GetContent(), want) {
			t.Fatalf("%v, %v", shown, err)
		}
		if again := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(again) != tool.CodeOutcomeUnknown || b.Calls.Load() != 1 {
			t.Errorf("it was only shown, and a duplicate got %v", again)
		}
		if made := settle(t, s, as, said).GetExecution(); made.GetState() != as || made.GetResult().GetContent() != shown.GetExecution().GetResult().GetContent() {
			t.Errorf("settled it is %v, shown was %v", made, shown)
		}
	}
	s, _ := lost(t)
	_, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) { r.ValidateOnly, r.Epoch = true, 7 }))
	wantStatus(t, err, codes.FailedPrecondition, "epoch")
}

// A tool that is not there is told with the one that was meant, and only that one.
func TestAToolThatIsMisspeltInASearch(t *testing.T) {
	s, _ := lost(t)
	for name, want := range map[string]string{"refnud": "refund", "refund": "", "delete_user": "", "": ""} {
		res := find(t, s, &sidecallv1.FindExecutionsRequest{ConversationId: "c1", ToolName: name})
		if res.GetNearestTool() != want {
			t.Errorf("%s: %q, want %q", name, res.GetNearestTool(), want)
		}
	}
}

// A verification is said to have settled a call as a person is, and what it took does not count the
// time until then.
func TestAVerificationIsSaidToHaveSettledACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		s.Call(calltest.Request("toolu_1", "refund"))
		byID := &sidecallv1.FindExecutionsRequest{ToolUseId: "toolu_1"}
		before := find(t, s, byID).GetExecutions()[0].GetExecution()
		time.Sleep(time.Hour)
		up.refunds.Add(1)
		s.Call(calltest.Request("toolu_1", "refund"))
		found := find(t, s, byID).GetExecutions()[0]
		if want := "it was settled as done by a verification: get_order shows that the call has happened"; found.GetExplanation() != want {
			t.Errorf("%q, want %q", found.GetExplanation(), want)
		}
		if ended := found.GetExecution().GetFinishedAt().AsTime(); !ended.Equal(before.GetFinishedAt().AsTime()) {
			t.Errorf("it ended %v, want %v", ended, before.GetFinishedAt().AsTime())
		}
	})
}
