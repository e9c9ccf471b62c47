package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
)

var example = step{name: "crash", rows: []string{"kill -9 [redis]", "kill -9 [embedded]"}}

func row(fault, store string, runs, violations int) proof.Row {
	return proof.Row{Fault: fault, Store: store, Runs: runs, Violations: violations}
}

// The table can fail: for each way in which a proof may be worth nothing.
func TestWhatIsNoProof(t *testing.T) {
	t.Parallel()
	redis, embedded := row("kill -9", "redis", 9, 0), row("kill -9", "embedded", 9, 0)
	for _, c := range []struct {
		name string
		rows []proof.Row
		want string // "" for a proof
	}{
		{"all there", []proof.Row{redis, embedded}, ""},
		{"a row is missing", []proof.Row{redis}, "a missing row: kill -9 [embedded]"},
		{"a row twice", []proof.Row{redis, embedded, redis}, "two rows: kill -9 [redis]"},
		{"a row of something else", []proof.Row{redis, embedded, row("other", "", 1, 0)}, "an unexpected row: other"},
		{"a violation", []proof.Row{redis, row("kill -9", "embedded", 9, 1)}, "kill -9 [embedded]: 9 runs, 1 violations"},
		{"nothing was run", []proof.Row{redis, row("kill -9", "embedded", 0, 0)}, "kill -9 [embedded]: 0 runs, 0 violations"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(missing(example.wanted(false), c.rows), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What a stopped step has started ends with it, also what a signal does not end.
func TestStoppedStepLeavesNoProcess(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `sh -c 'trap "" INT; echo up >&3; sleep 1000' & wait`)
	cmd.ExtraFiles = []*os.File{write}
	done := make(chan error, 1)
	go func() { done <- runGroup(cmd) }()
	if _, err := read.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a stopped step is no success")
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	// The pipe has its end when the last process that holds it is gone.
	if left, err := io.ReadAll(read); err != nil || len(left) > 0 {
		t.Errorf("after the step: %q, %v", left, err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := summary{took: 3 * time.Second, outcomes: []outcome{
		{step: example, rows: []proof.Row{{Fault: "kill -9", Store: "redis", Runs: 12, Figure: "none twice"}, {Fault: "307", Runs: 3, Violations: 1}}, problems: []string{"307: 3 runs, 1 violations"}},
	}}
	printTable(&b, s.outcomes)
	s.print(&b)
	want := `
FAULT    STORE  RUNS  VIOLATIONS  FIGURE
kill -9  redis  12    0           none twice
307      -      3     1           
BROKEN crash: 307: 3 runs, 1 violations

NOT PROVEN: short form, 1 of 1 steps, 2 rows, 1 violations, 3s
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// The last line claims no more than was run.
func TestVerdict(t *testing.T) {
	t.Parallel()
	good := []outcome{{step: example, rows: []proof.Row{row("kill -9", "redis", 9, 0)}}}
	for _, c := range []struct {
		name string
		sum  summary
		want string
		good bool
	}{
		{"all of it", summary{outcomes: good}, "PROVEN: short form, 1 of 1 steps, 1 rows, 0 violations, 0s", true},
		{"all in full size", summary{outcomes: good, full: true, took: time.Hour}, "PROVEN: full form, 1 of 1 steps, 1 rows, 0 violations, 1h0m0s", true},
		{"a part", summary{outcomes: good, full: true, left: []string{"soak", "fuzz"}},
			"LEFT OUT soak; fuzz\n\nPARTIAL: full form, 1 of 3 steps, 1 rows, 0 violations, 0s", true},
		{"a signal at the end", summary{outcomes: good, interrupted: true}, "BROKEN interrupted\n\nNOT PROVEN: short form, 1 of 1 steps, 1 rows, 0 violations, 0s", false},
		{"a signal between two steps", summary{outcomes: good, interrupted: true, left: []string{"fuzz"}},
			"BROKEN interrupted\nLEFT OUT fuzz\n\nNOT PROVEN: short form, 1 of 2 steps, 1 rows, 0 violations, 0s", false},
		{"nothing", summary{left: []string{"fuzz"}}, "BROKEN no row at all\nLEFT OUT fuzz\n\nNOT PROVEN: short form, 0 of 1 steps, 0 rows, 0 violations, 0s", false},
		{"as long as it may", summary{outcomes: good, took: shortForm}, "PROVEN: short form, 1 of 1 steps, 1 rows, 0 violations, 10m0s", true},
		{"longer", summary{outcomes: good, took: shortForm + time.Second},
			"SLOW the short form took 10m1s, and is meant to take 10m0s at most\n\nPROVEN: short form, 1 of 1 steps, 1 rows, 0 violations, 10m1s", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			c.sum.print(&b)
			if got := strings.TrimSpace(b.String()); got != c.want || (len(c.sum.problems()) == 0) != c.good {
				t.Errorf("got %q, %q; want %q", got, c.sum.problems(), c.want)
			}
		})
	}
}

// Fewer runs than promised are no proof in full size.
func TestTooFewRuns(t *testing.T) {
	t.Parallel()
	least := map[string]int{"kill -9 [redis]": 1000}
	for runs, want := range map[int]string{1000: "", 999: "kill -9 [redis]: 999 runs, want at least 1000"} {
		got := strings.Join(tooFew(least, []proof.Row{row("kill -9", "redis", runs, 0), row("307", "", 1, 0)}), "; ")
		if got != want {
			t.Errorf("%d runs: %q, want %q", runs, got, want)
		}
	}
}

// A figure that is asked of a row that does not exist asks nothing.
func TestLeastRunsAreOfRows(t *testing.T) {
	t.Parallel()
	var all []string
	for _, s := range steps {
		all = append(all, s.wanted(true)...)
	}
	for name, least := range leastRuns {
		if !slices.Contains(all, name) || least <= 0 {
			t.Errorf("at least %d runs of %q, which is no row", least, name)
		}
	}
}

// A variable that makes one proof smaller does not reach it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	kept, dropped := environment([]string{"HOME=/root", "SIDECALL_PROVE_HISTORIES=5", "SIDECALL_PROVE=short", "SIDECALL_E2E_RACE=1", "GO=go"})
	if !slices.Equal(kept, []string{"HOME=/root", "GO=go"}) || !slices.Equal(dropped, []string{"SIDECALL_PROVE_HISTORIES=5", "SIDECALL_PROVE=short", "SIDECALL_E2E_RACE=1"}) {
		t.Errorf("kept %q, dropped %q", kept, dropped)
	}
}

func TestRunningNothingProvesNothing(t *testing.T) {
	t.Parallel()
	if (runner{out: io.Discard}).all(t.Context(), steps, regexp.MustCompile("no such step")) {
		t.Error("nothing was run, and that passed")
	}
}

// What a clock judges is left out where only what counts is wanted, and the run
// says so.
func TestCounted(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	(runner{counted: true, out: &b}).all(t.Context(), []step{{name: "soak", clock: true}}, regexp.MustCompile(""))
	if !strings.Contains(b.String(), "LEFT OUT soak\n") {
		t.Errorf("a run that only counts says %s", b.String())
	}
}

// Steps that only count run at the same time, as many as were asked for; one that
// a clock judges runs when those have ended, with nothing beside it.
func TestTogether(t *testing.T) {
	t.Parallel()
	steps := []step{{name: "1"}, {name: "soak", clock: true}, {name: "2"}, {name: "3"}, {name: "fuzz", clock: true}}
	var running, most, done atomic.Int64
	both := make(chan struct{})
	runner{together: 2}.each(steps, func(i int, s step) {
		beside := running.Add(1)
		defer running.Add(-1)
		most.Store(max(most.Load(), beside))
		if s.name != steps[i].name {
			t.Errorf("step %s is told to be number %d", s.name, i)
		}
		if s.clock && (beside > 1 || done.Load() < 3) {
			t.Errorf("%s began beside %d others, after %d steps", s.name, beside-1, done.Load())
		}
		if beside == 2 && done.Load() == 0 {
			close(both)
		}
		if !s.clock {
			<-both // the first waits for the second
		}
		done.Add(1)
	})
	if most.Load() != 2 || done.Load() != 5 {
		t.Errorf("%d ran at a time, %d in all; want 2 of 5", most.Load(), done.Load())
	}
}

// A step takes seconds to come to its end after a signal; the verdict is that of
// the run, not of the steps before it.
func TestInterruptedProvesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	if (runner{out: &b}).all(ctx, steps, regexp.MustCompile("")) || !strings.Contains(b.String(), "\nNOT PROVEN: ") {
		t.Errorf("an interrupted run passed: %s", b.String())
	}
}

// Every step has a name, a package, time and rows, and no row is in two steps.
func TestSteps(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, s := range steps {
		if s.name == "" || s.pkg == "" || s.run == "" || s.short <= 0 || s.full < s.short || len(s.rows) == 0 {
			t.Errorf("a step that lacks something: %+v", s)
		}
		for _, name := range append([]string{"step " + s.name}, s.wanted(true)...) {
			if other, twice := seen[name]; twice {
				t.Errorf("%q is in %s and in %s", name, other, s.name)
			}
			seen[name] = s.name
		}
	}
}
