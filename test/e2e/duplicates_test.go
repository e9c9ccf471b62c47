//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const (
	stateClaimed = sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED
	stateDone    = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	stateNotRun  = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	stateUnknown = sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
)

// callOf is a call of the tool act whose execution the ledger counts under id.
func callOf(id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id)}
}

// executionOf asks for the record of a call.
func executionOf(t *testing.T, s *harness.Sidecar, id string) *sidecallv1.Execution {
	t.Helper()
	execution, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: id})
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	if execution.GetToolName() != "act" || execution.GetOwner() == "" || execution.GetStartedAt() == nil ||
		execution.GetEffect() != nonIdempotent {
		t.Errorf("the record of %s lacks something: %v", id, execution)
	}
	return execution
}

// The record of a call answers "did it run?" from the claim to the end.
func TestGetExecutionInEveryState(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, oneTool(up.URL))

	_, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "never"})
	wantCode(t, err, codes.NotFound)
	_, err = s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{})
	wantCode(t, err, codes.InvalidArgument, "tool_use_id")
	// What is refused before it is claimed leaves no record.
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "malformed", ToolName: "act", ArgumentsJson: `{"key":`})
	_, err = s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "malformed"})
	wantCode(t, err, codes.NotFound)

	done := s.Call(callOf("done"))
	if e := executionOf(t, s, "done"); e.GetState() != stateDone || e.GetAttempts() != 1 || e.GetEpoch() != 1 ||
		e.GetFinishedAt() == nil || e.GetResult().GetContent() != done.GetContent() {
		t.Errorf("done: %v", e)
	}

	up.Script("/act", upstream.StatusBody(404, `{"error":"no such order"}`))
	s.Call(callOf("failed"))
	if e := executionOf(t, s, "failed"); e.GetState() != stateDone || e.GetResult().GetError().GetCode() != "NOT_FOUND" {
		t.Errorf("a definite failure: %v", e)
	}

	up.Script("/act", upstream.CloseAfter())
	wantError(t, s.Call(callOf("unknown")), "OUTCOME_UNKNOWN")
	if e := executionOf(t, s, "unknown"); e.GetState() != stateUnknown || e.GetAttempts() != 1 ||
		e.GetResult().GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("unknown: %v", e)
	}

	// Another turn is another call.
	_, err = s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "done", TurnId: "2"})
	wantCode(t, err, codes.NotFound)
}

// awaitInFlight waits until so many calls, duplicates that wait among them, have
// arrived at a sidecar.
func awaitInFlight(t *testing.T, s *harness.Sidecar, calls int) {
	t.Helper()
	line := fmt.Sprintf("\nsidecall_calls_in_flight %d\n", calls)
	harness.WaitFor(t, "the calls to have arrived", func() bool {
		_, page := s.Get("/metrics")
		return strings.Contains(page, line)
	})
}

// While the first call runs, its record says so, and its duplicates wait for it
// or are told to come back.
func TestDuplicatesOfARunningCall(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	s := harness.Start(t, oneTool(g.URL))
	var running sync.WaitGroup
	defer running.Wait()
	answers := make(chan *sidecallv1.ExecuteToolResponse, 3)
	send := func() {
		running.Go(func() {
			res, err := execute(t, s, callOf("slow"))
			if err != nil {
				t.Error(err)
			}
			answers <- res
		})
	}
	send()
	<-g.arrived
	if e := executionOf(t, s, "slow"); e.GetState() != stateClaimed || e.GetFinishedAt() != nil || e.GetLeaseUntil() == nil || e.GetResult() != nil {
		t.Errorf("while it runs: %v", e)
	}
	hasty := callOf("slow")
	hasty.Timeout = durationpb.New(100 * time.Millisecond)
	res := s.Call(hasty)
	for range 2 { // the machine may stand still before it is found to run
		if res.GetError().GetCode() == "IN_PROGRESS" {
			break
		}
		res = s.Call(hasty)
	}
	wantError(t, res, "IN_PROGRESS")
	other := callOf("slow")
	other.ArgumentsJson = `{"key":"another"}`
	wantError(t, s.Call(other), "ID_REUSED") // at once, although the first one still runs
	send()
	send()
	awaitInFlight(t, s, 3)
	close(g.open)
	first := <-answers
	for range 2 {
		if res := <-answers; res.GetIsError() || res.GetContent() != first.GetContent() {
			t.Errorf("two duplicates got %v and %v", first, res)
		}
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// What provably did not run may be sent again under the same id, and then runs.
func TestNotRunMayBeSentAgain(t *testing.T) {
	t.Parallel()
	addr := harness.FreePort(t)
	s := harness.Start(t, oneTool("http://"+addr)+"defaults: {retry: {max_attempts: 2, base: 1ms}}\n")
	wantError(t, s.Call(callOf("t1")), "DEPENDENCY_UNAVAILABLE")
	if e := executionOf(t, s, "t1"); e.GetState() != stateNotRun || e.GetAttempts() != 2 || e.GetEpoch() != 1 {
		t.Errorf("with nobody listening: %v", e)
	}
	up, err := upstream.Start(upstream.New(upstream.NewLedger()), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	if res := s.Call(callOf("t1")); res.GetIsError() || res.GetReplayed() {
		t.Errorf("sent again: %v", res)
	}
	if e := executionOf(t, s, "t1"); e.GetState() != stateDone || e.GetEpoch() != 2 {
		t.Errorf("sent again: %v", e)
	}
	if n := up.Ledger.Total(); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
}

func TestAnIDIsForOneToolAndOneSetOfArguments(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, oneTool(up.URL)+"  pay: {backend: up, http: {method: POST, path: /pay}}\n")
	first := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act", ArgumentsJson: `{"a":1,"b":[1.0,"é"]}`})
	before := executionOf(t, s, "t1")
	for what, req := range map[string]*sidecallv1.ExecuteToolRequest{
		"other arguments": {ToolName: "act", ArgumentsJson: `{"a":2,"b":[1,"é"]}`},
		"fewer arguments": {ToolName: "act", ArgumentsJson: `{"a":1}`},
		"another order":   {ToolName: "act", ArgumentsJson: `{"a":1,"b":["é",1]}`},
		"another tool":    {ToolName: "pay", ArgumentsJson: `{"a":1,"b":[1,"é"]}`},
	} {
		req.ToolUseId = "t1"
		res := s.Call(req)
		wantError(t, res, "ID_REUSED")
		if res.GetReplayed() || res.GetRecovery().GetAttempts() != 0 || !strings.Contains(res.GetError().GetHint(), "new id") {
			t.Errorf("%s: %v", what, res)
		}
	}
	if after := executionOf(t, s, "t1"); after.GetState() != stateDone || after.String() != before.String() {
		t.Errorf("the record has changed: %v, before: %v", after, before)
	}
	// The same arguments, written differently, are the same call.
	same := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act", ArgumentsJson: ` {"b":[1,"\u00e9"], "a":1e0}`})
	if !same.GetReplayed() || same.GetContent() != first.GetContent() {
		t.Errorf("the same arguments, written differently: %v", same)
	}
	// The same id in another turn or conversation is another call.
	for _, req := range []*sidecallv1.ExecuteToolRequest{{TurnId: "2"}, {ConversationId: "c"}} {
		req.ToolUseId, req.ToolName, req.ArgumentsJson = "t1", "act", `{"a":3}`
		if res := s.Call(req); res.GetIsError() || res.GetReplayed() {
			t.Errorf("turn %q of conversation %q: %v", req.GetTurnId(), req.GetConversationId(), res)
		}
	}
	if n := up.Ledger.Total(); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
}
