package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/prove/proof"
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
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a stopped step is no success")
	}
	// The pipe has its end when the last process that holds it is gone.
	if left, err := io.ReadAll(read); err != nil || len(left) > 0 {
		t.Errorf("after the step: %q, %v", left, err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	outcomes := []outcome{
		{step: example, rows: []proof.Row{{Fault: "kill -9", Store: "redis", Runs: 12, Figure: "none twice"}, {Fault: "307", Runs: 3, Violations: 1}}, problems: []string{"307: 3 runs, 1 violations"}},
	}
	printTable(&b, outcomes)
	printVerdict(&b, false, outcomes, 3*time.Second)
	want := `
FAULT    STORE  RUNS  VIOLATIONS  FIGURE
kill -9  redis  12    0           none twice
307      -      3     1           
BROKEN crash: 307: 3 runs, 1 violations

NOT PROVEN: short form, 1 steps, 2 rows, 1 violations, 3s
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestRunningNothingProvesNothing(t *testing.T) {
	t.Parallel()
	if broken := (runner{out: io.Discard}).all(t.Context(), steps, regexp.MustCompile("no such step")); broken == 0 {
		t.Error("nothing was run, and that passed")
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
