//go:build prove

package mutants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// onlyEnv names the environment variable that holds a pattern of the names of
// the mutants to run, for looking into one.
const onlyEnv = "SIDECALL_PROVE_MUTANTS"

// TestMutants runs the suite of every mutant with it, and each suite once
// without any.
func TestMutants(t *testing.T) {
	var all []Mutant
	suites := map[string]Suite{}
	only := regexp.MustCompile(os.Getenv(onlyEnv))
	for _, m := range All() {
		if (proof.Full() || m.Short) && only.MatchString(m.Name) {
			all = append(all, m)
			suites[m.Suite.Package+m.Suite.Run] = m.Suite
		}
	}
	home, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{T: t, root: home}
	if !proof.Full() { // the histories are steps of their own
		clear(suites)
	}
	for _, s := range suites {
		r.run(Mutant{Name: "none, " + s.Package + " " + s.Run, Suite: s}, survived)
	}
	for _, m := range all {
		r.run(m, caught)
	}
	r.wait()
	proof.Report(t, proof.Row{
		Fault: "mutants", Runs: len(all), Violations: r.missed, Figure: fmt.Sprintf("%d of %d caught", len(all)-r.missed, len(all)),
	})
}

// runner runs suites, two at a time.
type runner struct {
	*testing.T
	root  string
	slots sync.WaitGroup
	mu    sync.Mutex
	room  chan struct{}
	// missed counts the mutants that were not caught.
	missed int
}

func (r *runner) run(m Mutant, want verdict) {
	if r.room == nil {
		r.room = make(chan struct{}, 2)
	}
	r.room <- struct{}{}
	r.slots.Go(func() {
		defer func() { <-r.room }()
		begun := time.Now()
		got, output := r.judge(m)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Logf("%v in %v: %s", got, time.Since(begun).Round(time.Millisecond), m.Name)
		if got == want {
			return
		}
		if want == caught {
			r.missed++
		}
		r.Errorf("%s: %v, want %v\n%s", m.Name, got, want, clip(output))
	})
}

func (r *runner) wait() { r.slots.Wait() }

// judge runs the suite of a mutant with it.
func (r *runner) judge(m Mutant) (verdict, string) {
	dir := r.TempDir()
	overlay, err := m.overlay(r.root, dir)
	if err != nil {
		return inconclusive, err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	histories := "3000" // at the most: three violations are enough
	if len(m.Edits) == 0 {
		histories = "500"
	}
	cmd := exec.CommandContext(ctx, harness.Go(), "test", "-tags", "prove", "-overlay", overlay, "-count=1", "-timeout", "4m",
		"-vet=off", "-ldflags=-s -w", // a third of the time
		"-run", m.Suite.Run, m.Suite.Package)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), proof.SizeEnv+"=short", proof.RowsEnv+"=",
		"SIDECALL_PROVE_HISTORIES="+histories, "SIDECALL_PROVE_SEARCH=10s", "SIDECALL_PROVE_PICTURES="+dir)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return inconclusive, err.Error()
	}
	return m.Suite.read(string(output), err != nil), string(output)
}

// clip keeps the beginning and the end of a long output.
func clip(output string) string {
	const each = 2000
	output = strings.TrimSpace(output)
	if len(output) <= 2*each {
		return output
	}
	return output[:each] + "\n…\n" + output[len(output)-each:]
}
