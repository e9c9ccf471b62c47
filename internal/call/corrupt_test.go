package call_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// rottenStore is a store that cannot read a record.
type rottenStore struct{ brokenStore }

var errRotten = &dedupe.Corrupt{Name: "sidecall:{103}//c1/t1/toolu_1", Why: fmt.Errorf("%w: a record is state(9)", dedupe.ErrCorrupt)}

func (rottenStore) Admit(context.Context, dedupe.Request) (dedupe.Admission, error) {
	return dedupe.Admission{}, errRotten
}

func (rottenStore) Note(context.Context, dedupe.Note) (dedupe.Known, error) {
	return dedupe.Known{}, errRotten
}

func (rottenStore) ListOpen(context.Context, string) (dedupe.Page, error) {
	return dedupe.Page{Calls: []dedupe.Listed{{Key: tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}, Err: errRotten}}}, nil
}

// A call of which the record is corrupt is not run, whatever it is, and is not to
// be sent again later: the answer is definite, and says who has to act.
func TestACallWithACorruptRecord(t *testing.T) {
	for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed, tool.Idempotent, tool.ReadOnly} {
		answers := calltest.Answers("paid")
		s := calltest.NewOn(t, rottenStore{}, calltest.NewRoute(t, "refund", effect, answers))
		for what, req := range map[string]*sidecallv1.ExecuteToolRequest{
			"asked for": calltest.Request("toolu_1", "refund"), "of a tool that is gone": calltest.Request("toolu_1", "refunds"),
		} {
			res := s.Call(req)
			if calltest.Code(res) != tool.CodeOutcomeUnknown || res.GetRecovery().GetRetryable() || res.GetRecovery().GetRetryAfter() != nil ||
				!strings.Contains(res.GetError().GetConstraint(), "corrupt") || !strings.Contains(res.GetError().GetHint(), "operator") {
				t.Errorf("%v, %s: got %v", effect, what, res)
			}
		}
		if n := answers.Calls.Load(); n != 0 {
			t.Errorf("%v: run %d times", effect, n)
		}
	}
}

// An operator is told which record it is.
func TestACorruptRecordIsNamed(t *testing.T) {
	s := calltest.NewOn(t, rottenStore{}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("paid")))
	list, err := operator(s).ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != 1 {
		t.Fatal(list, err)
	}
	listed := list.GetExecutions()[0]
	if listed.GetToolUseId() != "toolu_1" || !strings.Contains(listed.GetError().GetReceived(), errRotten.Name) {
		t.Errorf("listed as %v", listed)
	}
	_, err = operator(s).ResolveExecution(t.Context(), resolution(stateDone))
	wantStatus(t, err, codes.DataLoss, errRotten.Name)
}
