package main

import (
	"strings"
	"sync"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Flags that do not go together are refused before anything is sent.
func TestResolveRefusesFlagsThatDoNotGoTogether(t *testing.T) {
	for line, want := range map[string]string{
		"--as done":                            "--as needs --id",
		"--verify":                             "--verify needs --id",
		"--conversation c":                     "--conversation needs --id",
		"--limit -1":                           "--limit",
		"--id x":                               "what became of the call?",
		"--id x --as lost --reason r":          "want done or not_run",
		"--id x --as done":                     "--reason is required",
		"--id x --as done --reason r --verify": "exclude each other",
		"--id x --as not_run --reason r --content c":        "--as done only",
		"--id x --as not_run --reason r --is-error":         "--as done only",
		"--id x --as done --reason r --args {}":             "--verify only",
		"--id x --as done --reason r --limit 3":             "the list only",
		"--id x --verify --reason r":                        "--as only",
		"--id x --as done --reason r --content @/not/there": "no such file",
		"--addr host:1": "want tcp://",
	} {
		cmd := newResolve()
		cmd.SetArgs(strings.Split(line, " "))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something with %q", line, err, want)
		}
		if code := report(cmd, err); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d", line, code, exitUsage)
		}
	}
}

// What was not unknown when it was looked at is settled by nobody: there was no
// question whose answer could have been yes, and it may be unknown by now.
func TestOnlyWhatWasSeenUnknownIsSettled(t *testing.T) {
	for state, want := range map[sidecallv1.ExecutionState]string{
		sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED: "claimed",
		sidecallv1.ExecutionState_EXECUTION_STATE_DONE:    "done already",
		sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN: "not_run already",
	} {
		for _, yes := range [][]string{nil, {"--yes"}} {
			fake := &fakeSidecar{record: &sidecallv1.Execution{State: state, Epoch: 1, Owner: "host-1"}}
			addr, _ := fake.serve(t)
			args := append([]string{"resolve", "--addr", addr, "--id", "order-1", "--as", "not_run", "--reason", "impatient"}, yes...)
			got := command(t, args...)
			if n := fake.resolved.Load(); n != 0 {
				t.Errorf("%v %v: %d resolutions arrived", state, yes, n)
			}
			if got.code != exitFailed || got.err == nil || !strings.Contains(got.err.Error(), want) {
				t.Errorf("%v %v: exit code %d, %v; want %d and %q", state, yes, got.code, got.err, exitFailed, want)
			}
		}
	}
}

// What was seen unknown is settled, by who says yes to it.
func TestWhatWasSeenUnknownIsSettled(t *testing.T) {
	fake := &fakeSidecar{record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, Epoch: 1}}
	addr, _ := fake.serve(t)
	args := []string{"resolve", "--addr", addr, "--id", "order-1", "--as", "not_run", "--reason", "looked"}
	if got := command(t, args...); got.code != exitUsage || fake.resolved.Load() != 0 {
		t.Errorf("nobody was there to ask: %+v, %d resolutions", got, fake.resolved.Load())
	}
	if got := command(t, append(args, "--yes")...); got.code != 0 || fake.resolved.Load() != 1 || !strings.Contains(got.out, "order-1 is not_run") {
		t.Errorf("with --yes: %+v, %d resolutions", got, fake.resolved.Load())
	}
}

// Whoever settles a call reads before the question what the model will be told, the reason with it.
func TestWhatTheModelWillBeToldIsShownFirst(t *testing.T) {
	for as, want := range map[string]string{
		"done":    "Whoever sends it again is told this, with your reason:\n    | settled: looked\n",
		"not_run": "Whoever sends it again runs it, and is not told your reason.\n",
	} {
		fake := &fakeSidecar{record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, Epoch: 1}}
		addr, _ := fake.serve(t)
		got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--as", as, "--reason", "looked")
		if got.code != exitUsage || fake.resolved.Load() != 0 || !strings.Contains(got.errOut, want) {
			t.Errorf("%s: %+v, %d resolutions, want %q", as, got, fake.resolved.Load(), want)
		}
	}
}

// Whoever settles a call reads what it was sent with, and not what another was under the same id. What would
// write over a terminal is shown and not done.
func TestWhatACallWasSentWithIsShownFirst(t *testing.T) {
	found := func(turn, args string) *sidecallv1.FoundExecution {
		return &sidecallv1.FoundExecution{ToolUseId: "order-1", TurnId: turn, Details: &sidecallv1.CallDetails{ArgumentsJson: args}}
	}
	fake := &fakeSidecar{
		record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, Epoch: 1},
		found:  &sidecallv1.FindExecutionsResponse{Executions: []*sidecallv1.FoundExecution{found("t-1", "{\"to\":\"A\x1b[2J\"}"), found("t-2", `{"to":"B"}`)}},
	}
	addr, _ := fake.serve(t)
	got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--turn", "t-1", "--as", "done", "--reason", "looked")
	if !strings.Contains(got.errOut, `  sent {"to":"A\x1b[2J"}`+"\n") || strings.Contains(got.errOut, `"B"`) || strings.Contains(got.errOut, "\x1b") {
		t.Errorf("%q", got.errOut)
	}
}

// Whose call it is stands in the list, and is named where it is settled.
func TestACallOfATenantIsSettled(t *testing.T) {
	fake := &fakeSidecar{record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, Epoch: 1}, tenant: "reader,writer"}
	addr, _ := fake.serve(t)
	at := []string{"resolve", "--addr", addr, "--tenant", "reader,writer"}
	if got := command(t, at...); got.code != 0 || !strings.Contains(got.out, "TENANT") || !strings.Contains(got.out, "reader,writer") {
		t.Errorf("the list: %+v", got)
	}
	if got := command(t, append(at, "--id", "order-1", "--as", "done", "--reason", "looked", "--yes")...); got.code != 0 || !strings.Contains(got.out, "order-1 is done") {
		t.Errorf("settled: %+v", got)
	}
	if got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--as", "done", "--reason", "looked", "--yes"); got.code != exitFailed {
		t.Errorf("without its tenant: %+v", got)
	}
}

// What was settled as not_run may have been sent again before anybody looks: it is settled all the same.
func TestACallThatWasSentAsSoonAsItWasSettled(t *testing.T) {
	for _, state := range []sidecallv1.ExecutionState{sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED, sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN} {
		fake := &fakeSidecar{record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN}, becomes: state}
		addr, _ := fake.serve(t)
		got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--as", "not_run", "--reason", "looked", "--yes")
		if got.code != 0 || !strings.HasPrefix(got.out, "order-1 is settled, and was sent again since") {
			t.Errorf("%v: %+v", state, got)
		}
	}
}

// What a sidecar answers that this command does not know is not taken for done.
func TestAResolutionToAStateThatIsNotKnown(t *testing.T) {
	fake := &fakeSidecar{
		record:  &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN},
		becomes: sidecallv1.ExecutionState(77),
	}
	addr, _ := fake.serve(t)
	got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--as", "not_run", "--reason", "looked", "--yes")
	if got.code != exitFailed || got.out != "" || got.err == nil || !strings.Contains(got.err.Error(), "77") {
		t.Errorf("%+v", got)
	}
}

// Nobody knows whether a resolution counts whose answer is lost.
func TestASidecarThatDiesAtAResolution(t *testing.T) {
	fake := &fakeSidecar{record: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN}}
	addr, stop := fake.serve(t)
	var dead sync.WaitGroup
	defer dead.Wait()
	fake.dies = func() { dead.Go(stop) }
	got := command(t, "resolve", "--addr", addr, "--id", "order-1", "--as", "not_run", "--reason", "looked", "--yes")
	if got.code != exitUnavailable || got.err == nil || !strings.Contains(got.err.Error(), "may be settled or not: look at it again") {
		t.Errorf("exit code %d, %v", got.code, got.err)
	}
}
