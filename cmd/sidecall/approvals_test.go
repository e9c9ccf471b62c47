package main

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// heldCall is a call that waits for a person.
func heldCall() *sidecallv1.HeldExecution {
	until := timestamppb.New(time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC))
	return &sidecallv1.HeldExecution{
		ConversationId: "c1", ToolUseId: "order-1", Fingerprint: "0a1b2c3d4e5f",
		Execution: &sidecallv1.Execution{
			State: sidecallv1.ExecutionState_EXECUTION_STATE_HELD, ToolName: "refund", Owner: "host-1.a", LeaseUntil: until, StartedAt: timestamppb.Now(),
		},
		Hold:    &sidecallv1.Hold{Reason: "approve_when: args.cents > 100000", ExpiresAt: until},
		Details: &sidecallv1.CallDetails{ArgumentsJson: "{\"cents\":100001,\"note\":\"a\x1b[31m\"}"},
	}
}

// Flags that are missing are asked for before anything is sent.
func TestApprovalsRefuseWhatIsNotSaid(t *testing.T) {
	for line, want := range map[string]string{
		"":                                       "expected list, approve or deny",
		"allow":                                  "expected list, approve or deny",
		"list --limit -1":                        "--limit",
		"list --id x":                            "unknown flag: --id",
		"list x":                                 "a call is named by --id",
		"approve --as ada --reason r":            "--id: which call?",
		"approve --id x --reason r":              "--as is required",
		"deny --id x --as ada":                   "--reason is required",
		"deny --id x --as ada --reason=":         "--reason is required",
		"deny --id x --as a --reason r --addr h": "want tcp://",
	} {
		cmd := newApprovals()
		cmd.SetArgs(strings.Fields(line))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something with %q", line, err, want)
		}
		if code := report(cmd, err); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", line, code, exitUsage)
		}
	}
}

// What waits is listed with its arguments, harmless on a terminal.
func TestHeldCallsAreListed(t *testing.T) {
	allowed := heldCall()
	allowed.Execution.Approval = &sidecallv1.Resolution{By: "ann", ClaimedBy: "ada"}
	allowed.ToolUseId, allowed.Details = "order-2", nil
	cut := heldCall()
	cut.ToolUseId, cut.Details.ArgumentsCut = "order-3", true
	fake := &fakeSidecar{held: []*sidecallv1.HeldExecution{heldCall(), allowed, cut}}
	addr, _ := fake.serve(t)
	got := command(t, "approvals", "list", "--addr", addr)
	for _, want := range []string{
		"ASKED BECAUSE OF", "order-1", "refund", "2026-11-26T13:00:00Z", "args.cents > 100000", `{"cents":100001,"note":"a`,
		"ada (ann)", "keep_arguments is none", "(cut: they are longer)",
	} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("exit code %d, %q is missing in\n%s", got.code, want, got.out)
		}
	}
	if strings.Contains(got.out, "\x1b") {
		t.Error("what a model has written reaches the terminal as it is")
	}
	if got := command(t, "approvals", "list", "--addr", addr, "--limit", "1"); strings.Contains(got.out, "order-2") {
		t.Errorf("at most one: %s", got.out)
	}
	var parsed []map[string]any
	if got := command(t, "approvals", "list", "--addr", addr, "--json"); json.Unmarshal([]byte(got.out), &parsed) != nil || len(parsed) != 3 || parsed[0]["fingerprint"] != "0a1b2c3d4e5f" {
		t.Errorf("as JSON: %s", got.out)
	}
	fake.held = nil
	if got := command(t, "approvals", "list", "--addr", addr); got.code != 0 || got.out != "" {
		t.Errorf("nothing waits: %+v", got)
	}
}

// What was shown is decided, and nothing else, by who says yes to it.
func TestAHeldCallIsDecided(t *testing.T) {
	fake := &fakeSidecar{held: []*sidecallv1.HeldExecution{heldCall()}}
	addr, _ := fake.serve(t)
	for _, c := range []struct{ verb, says string }{{"approve", "order-1 is allowed"}, {"deny", "order-1 is denied"}} {
		fake.decided = nil
		args := []string{"approvals", c.verb, "--addr", addr, "--id", "order-1", "--conversation", "c1", "--turn", "t1", "--as", "ada", "--reason", "looked"}
		if got := command(t, args...); got.code != exitUsage || len(fake.decided) != 0 || !strings.Contains(got.err.Error(), "there is nobody to ask") {
			t.Errorf("%s: nobody was there to ask: %+v", c.verb, got)
		}
		got := command(t, append(args, "--yes")...)
		if got.code != 0 || !strings.Contains(got.out, c.says) || len(fake.decided) != 1 {
			t.Fatalf("%s: %+v", c.verb, got)
		}
		if d := fake.decided[0]; d.GetHold() != "host-1.a" || d.GetFingerprint() != "0a1b2c3d4e5f" || d.GetDecidedBy() != "ada" || d.GetReason() != "looked" ||
			d.GetConversationId() != "c1" || d.GetTurnId() != "t1" || d.GetToolUseId() != "order-1" {
			t.Errorf("%s: sent %v", c.verb, d)
		}
		if got := command(t, append(args, "--yes", "--json")...); got.code != 0 || !strings.Contains(got.out, `"state"`) {
			t.Errorf("%s as JSON: %+v", c.verb, got)
		}
	}
}

// What was allowed may have been sent, and have ended, before anybody looks: it was not denied.
func TestACallThatWasSentAsSoonAsItWasAllowed(t *testing.T) {
	for state, says := range map[sidecallv1.ExecutionState]string{
		sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED: "order-1 is allowed, and running already",
		sidecallv1.ExecutionState_EXECUTION_STATE_DONE:    "order-1 is allowed, and more has become of it since",
		sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN: "order-1 is allowed, and more has become of it since",
		sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN: "order-1 is allowed, and more has become of it since",
	} {
		fake := &fakeSidecar{held: []*sidecallv1.HeldExecution{heldCall()}, becomes: state}
		addr, _ := fake.serve(t)
		got := command(t, "approvals", "approve", "--addr", addr, "--id", "order-1", "--as", "ada", "--reason", "looked", "--yes")
		if got.code != 0 || !strings.HasPrefix(got.out, says) {
			t.Errorf("%v: %+v", state, got)
		}
	}
}

// What a sidecar answers that this command does not know is not taken for done.
func TestADecisionToAStateThatIsNotKnown(t *testing.T) {
	fake := &fakeSidecar{held: []*sidecallv1.HeldExecution{heldCall()}, becomes: 77}
	addr, _ := fake.serve(t)
	got := command(t, "approvals", "approve", "--addr", addr, "--id", "order-1", "--as", "ada", "--reason", "looked", "--yes")
	if got.code != exitFailed || got.out != "" || got.err == nil || !strings.Contains(got.err.Error(), "77") {
		t.Errorf("%+v", got)
	}
}

// Nobody knows whether a decision counts whose answer is lost.
func TestASidecarThatDiesAtADecision(t *testing.T) {
	fake := &fakeSidecar{held: []*sidecallv1.HeldExecution{heldCall()}}
	addr, stop := fake.serve(t)
	var dead sync.WaitGroup
	defer dead.Wait()
	fake.dies = func() { dead.Go(stop) }
	got := command(t, "approvals", "approve", "--addr", addr, "--id", "order-1", "--as", "ada", "--reason", "looked", "--yes")
	if got.code != exitUnavailable || got.err == nil || !strings.Contains(got.err.Error(), "may be decided or not: look at it again") {
		t.Errorf("exit code %d, %v", got.code, got.err)
	}
}
