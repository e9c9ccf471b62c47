package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/store/embedded"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// What is found is told with what it rests on, and with the command to go on with.
func TestWhatIsFoundOnATerminal(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC))
	call := func(verdict sidecallv1.Verdict, state sidecallv1.ExecutionState, change func(*sidecallv1.FoundExecution)) *sidecallv1.FoundExecution {
		found := &sidecallv1.FoundExecution{
			ConversationId: "customer 7", TurnId: "t1", ToolUseId: "toolu_1", Verdict: verdict, Explanation: "it is so", Advice: "Do that.",
			Execution: &sidecallv1.Execution{ToolName: "refund", State: state, StartedAt: at, FinishedAt: at, Attempts: 1, Result: &sidecallv1.ExecuteToolResponse{Content: "first\nsecond"}},
			Details:   &sidecallv1.CallDetails{ArgumentsJson: `{"order_id":"A-77"}`, UpstreamId: "up-1"},
		}
		change(found)
		return found
	}
	by := &sidecallv1.Resolution{By: "root", ClaimedBy: "ada", Reason: "it is in the ledger", At: at}
	for name, c := range map[string]struct {
		call      *sidecallv1.FoundExecution
		has, less []string
	}{
		"ran": {
			call(sidecallv1.Verdict_VERDICT_RAN, sidecallv1.ExecutionState_EXECUTION_STATE_DONE, func(f *sidecallv1.FoundExecution) { f.Replays, f.LastReplayedAt = 2, at }),
			[]string{"RAN  refund", "It is so.", `conversation "customer 7", turn t1, id toolu_1`, `sent       {"order_id":"A-77"}`, "up-1", "model      was told:\n    | first\n    | second\n", "2 by this sidecar", "again      Do that."},
			[]string{"settled", "settle ", "decide"},
		},
		"settled by somebody": {
			call(sidecallv1.Verdict_VERDICT_RAN, sidecallv1.ExecutionState_EXECUTION_STATE_DONE, func(f *sidecallv1.FoundExecution) {
				f.Execution.Result.Resolution, f.Details.ToldBefore = by, "nobody knows"
			}),
			[]string{"settled    2026-11-26T03:00:00Z by ada (root): it is in the ledger", "was told, before it was settled:\n    | nobody knows", "sent again it is told:\n    | first"},
			[]string{"model      was told:"},
		},
		"settled as not run": {
			call(sidecallv1.Verdict_VERDICT_NOT_RUN, sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN, func(f *sidecallv1.FoundExecution) {
				f.Execution.Result.Resolution, f.Details.ToldBefore = by, "first\nsecond"
			}),
			[]string{"settled    2026-11-26T03:00:00Z by ada (root)", "model      was told:\n    | first\n    | second\n"},
			[]string{"it is told", "before it was settled"},
		},
		"with all that it was told": {
			call(sidecallv1.Verdict_VERDICT_RAN, sidecallv1.ExecutionState_EXECUTION_STATE_DONE, func(f *sidecallv1.FoundExecution) {
				f.Execution.Result.Recovery, f.Execution.Result.Notices = &sidecallv1.Recovery{Context: "Recovery context\nthird"}, []string{"fourth"}
			}),
			[]string{"    | first\n    | second\n    |\n    | Recovery context\n    | third\n    |\n    | fourth\n"}, nil,
		},
		"with arguments that would write over the line, and turn it round": {
			call(sidecallv1.Verdict_VERDICT_RAN, sidecallv1.ExecutionState_EXECUTION_STATE_DONE, func(f *sidecallv1.FoundExecution) {
				f.Details.ArgumentsJson = "{\"to\":\"a\u202eb\u009b2J\"}"
			}),
			[]string{`sent       {"to":"a\u202eb\u009b2J"}`}, []string{"\u202e", "\u009b"},
		},
		"without a turn, of a tenant, with a verification": {
			call(sidecallv1.Verdict_VERDICT_UNKNOWN, sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, func(f *sidecallv1.FoundExecution) {
				f.TurnId, f.Tenant, f.Verifiable = "", "reader", true
			}),
			[]string{
				"verify     sidecall resolve --conversation 'customer 7' --id 'toolu_1' --tenant 'reader' --verify\n",
				"settle     sidecall resolve --conversation 'customer 7' --id 'toolu_1' --tenant 'reader' --as done|not_run --by YOU --reason TEXT\n",
			}, nil,
		},
		"unknown": {
			call(sidecallv1.Verdict_VERDICT_UNKNOWN, sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, func(*sidecallv1.FoundExecution) {}),
			[]string{"settle     sidecall resolve --conversation 'customer 7' --turn 't1' --id 'toolu_1' --as done|not_run --by YOU --reason TEXT"},
			[]string{"decide"},
		},
		"held": {
			call(sidecallv1.Verdict_VERDICT_HELD, sidecallv1.ExecutionState_EXECUTION_STATE_HELD, func(f *sidecallv1.FoundExecution) { f.IdempotencyKey = "k-1" }),
			[]string{"HELD  refund", "key        k-1\n", "sent again it is told:", "decide     sidecall approvals approve|deny --conversation 'customer 7' --turn 't1' --id 'toolu_1' --as YOU --reason TEXT"},
			[]string{"settle "},
		},
		"allowed": {
			call(sidecallv1.Verdict_VERDICT_HELD, sidecallv1.ExecutionState_EXECUTION_STATE_HELD, func(f *sidecallv1.FoundExecution) {
				f.Execution.Approval, f.Execution.Result.Hold = by, &sidecallv1.Hold{Approved: true}
			}),
			[]string{"allowed    2026-11-26T03:00:00Z by ada (root): it is in the ledger"},
			[]string{"decide", "sent again it is told:"},
		},
		"forgotten": {
			call(sidecallv1.Verdict_VERDICT_FORGOTTEN, 0, func(f *sidecallv1.FoundExecution) { f.Execution, f.Details = nil, nil }),
			[]string{"FORGOTTEN  (tool unknown)\n", "again      Do that."}, []string{"attempts", "sent"},
		},
	} {
		var out strings.Builder
		if err := (&foundText{out: &out}).write([]*sidecallv1.FoundExecution{c.call}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, &out)
			}
		}
		for _, not := range c.less {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s has %q:\n%s", name, not, &out)
			}
		}
	}
}

// A script tells by the exit code what is to be done. What nobody knows comes before what is not
// decided yet.
func TestTheExitCodeOfASearch(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		verdicts []sidecallv1.Verdict
	}{
		"ran, and not run":   {0, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_RAN, sidecallv1.Verdict_VERDICT_NOT_RUN}},
		"none":               {exitFailed, nil},
		"held":               {exitUndecided, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_RAN, sidecallv1.Verdict_VERDICT_HELD}},
		"running":            {exitUndecided, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_RUNNING}},
		"unknown":            {exitUnknown, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_UNKNOWN}},
		"forgotten":          {exitUnknown, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_FORGOTTEN}},
		"unknown, then held": {exitUnknown, []sidecallv1.Verdict{sidecallv1.Verdict_VERDICT_UNKNOWN, sidecallv1.Verdict_VERDICT_HELD}},
	} {
		fake := &fakeSidecar{found: &sidecallv1.FindExecutionsResponse{}}
		for _, v := range c.verdicts {
			fake.found.Executions = append(fake.found.Executions, &sidecallv1.FoundExecution{Verdict: v})
		}
		addr, _ := fake.serve(t)
		if got := command(t, "find", "order_id=A-77", "--addr", addr); got.code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got.code, c.code)
		}
	}
}

// Whoever misspells a tool is told which was meant.
func TestAMisspeltToolOfASearch(t *testing.T) {
	addr, _ := (&fakeSidecar{found: &sidecallv1.FindExecutionsResponse{NearestTool: "refund"}}).serve(t)
	got := command(t, "find", "order_id=A-77", "--tool", "refnud", "--addr", addr)
	if got.code != exitFailed || !strings.Contains(got.errOut, "there is no tool refnud as the config is now: did you mean --tool refund?") {
		t.Errorf("%+v", got)
	}
}

// A search of the last hour says nothing of the hours before.
func TestNothingIsFoundInAWhile(t *testing.T) {
	day := time.Now().Add(-24 * time.Hour)
	addr, _ := (&fakeSidecar{found: &sidecallv1.FindExecutionsResponse{RememberedSince: timestamppb.New(day)}}).serve(t)
	for since, want := range map[string]string{
		"1h": "What was claimed before (1h0m ago) was not looked at (--since)",
		"7d": "since " + day.UTC().Format(time.RFC3339) + ". What ended before (24h0m ago) is forgotten, and a call that was refused before it was claimed, or only observed, leaves no record.",
	} {
		if got := command(t, "find", "order_id=A-77", "--since", since, "--addr", addr); got.code != exitFailed || !strings.Contains(got.out, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// A search that cannot be made says so before the sidecar is asked.
func TestWrongSearches(t *testing.T) {
	for text, want := range map[string]string{
		"find":                           "which call?",
		"find A-77":                      "want KEY=VALUE",
		"find =A-77":                     "want KEY=VALUE",
		"find order_id=":                 "want KEY=VALUE",
		"find order_id=1 two=2":          "found by one argument",
		"find --label user":              "want NAME=VALUE",
		"find order_id=1 --limit -1":     "must not be negative",
		"find order_id=1 --since before": "want how long ago",
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(text))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Whoever stops to read what is found, as head does, ends the command without a word; the directory
// of the sidecar that was started for it is not left behind.
func TestWhatNobodyReadsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	state, temporary := t.TempDir(), harness.ShortDir(t) // which has a socket for a while
	store, err := embedded.Open(filepath.Join(state, wrapStore), embedded.Options{})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	read, written, err := os.Pipe()
	if err == nil {
		err = read.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	find := exec.CommandContext(t.Context(), os.Args[0], "find", "--id", "x", "--state", state)
	find.Env, find.Stdout, find.Stderr = append(os.Environ(), "TMPDIR="+temporary), written, &errOut
	err = find.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+int(syscall.SIGPIPE) || errOut.Len() > 0 {
		t.Errorf("it ended by %v: %s", err, &errOut)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
	_ = written.Close() // nobody reads it
}
