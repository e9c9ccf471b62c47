//go:build prove

package fuzz_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/fuzz"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	// addressSpace is what a process that fuzzes may map, in KiB: what takes
	// memory without end dies of it, and the fuzzer keeps the input.
	addressSpace = 4 << 20
	// lanes is how many targets are fuzzed at the same time, by one worker each.
	lanes = 2
)

// Every target, for a while: no new input on which one panics, breaks a
// promise, hangs, or takes memory without end.
func TestFuzz(t *testing.T) {
	t.Parallel()
	binaries := build(t)
	var mu sync.Mutex
	var total result
	var wg sync.WaitGroup
	work := make(chan fuzz.Target)
	for range lanes {
		wg.Go(func() {
			for target := range work {
				r := fuzzed(t, target, binaries[target.Package])
				mu.Lock()
				total = total.plus(r)
				mu.Unlock()
			}
		})
	}
	for _, target := range fuzz.Targets {
		work <- target
	}
	close(work)
	wg.Wait()
	proof.Report(t, proof.Row{
		Fault: "fuzzed inputs", Runs: total.targets, Violations: total.failed,
		Figure: fmt.Sprintf("%d executions of %d targets, new cases %d, peak memory %d MB (%s each)", total.executions, total.targets,
			total.failed, total.peak>>20, proof.Pick(shortTime, fullTime)),
	})
}

// How long each target is fuzzed.
const (
	shortTime = 1500 * time.Millisecond
	fullTime  = time.Minute
)

// result is what came of one target, or of several.
type result struct {
	targets, executions, failed int
	// peak is the most memory that one process had, in bytes.
	peak int64
}

func (r result) plus(o result) result {
	return result{r.targets + o.targets, r.executions + o.executions, r.failed + o.failed, max(r.peak, o.peak)}
}

// build makes one test binary of each package. In full size it is instrumented,
// so that the fuzzer sees which inputs reach new code. That means to compile
// all dependencies once more, which takes longer than the short form may: there
// the inputs come from the seeds, by chance alone.
func build(t *testing.T) map[string]string {
	t.Helper()
	binaries, dir := map[string]string{}, t.TempDir()
	for _, target := range fuzz.Targets {
		if binaries[target.Package] != "" {
			continue
		}
		path := filepath.Join(dir, strings.ReplaceAll(target.Package, "/", "_")+".test")
		args := []string{"test", "-c", "-o", path, "./" + target.Package}
		if proof.Full() {
			args = append([]string{"test", "-fuzz=."}, args[1:]...)
		}
		compile(t, harness.Root(), args...)
		binaries[target.Package] = path
	}
	return binaries
}

// compile runs the go command in dir.
func compile(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Go(), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// fuzzed fuzzes one target for as long as the size of the proof says.
func fuzzed(t *testing.T, target fuzz.Target, binary string) result {
	t.Helper()
	dir := filepath.Join(harness.Root(), filepath.FromSlash(target.Package))
	f, out := run(t, fuzzer{binary: binary, dir: dir, name: target.Name, lasts: proof.Pick(shortTime, fullTime)})
	r := result{targets: 1, executions: f.executions, peak: f.peak}
	if f.problem != "" {
		r.failed = 1
		t.Errorf("%s.%s: %s\n%s", target.Package, target.Name, f.problem, out)
		return r
	}
	t.Logf("%s.%s: %d executions, %d MB", target.Package, target.Name, r.executions, r.peak>>20)
	return r
}

// bounded is a command that may not map more than addressSpace.
func bounded(ctx context.Context, command ...string) *exec.Cmd {
	limited := append([]string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, addressSpace)}, command...)
	return exec.CommandContext(ctx, "sh", limited...)
}

// greedyVariable makes the test binary a program that takes memory without end.
const greedyVariable = "SIDECALL_PROVE_GREEDY"

func TestMain(m *testing.M) {
	if os.Getenv(greedyVariable) != "" {
		os.Exit(takeMemory())
	}
	os.Exit(m.Run())
}

// takeMemory ends with 0 when nothing stops it at twice the bound.
func takeMemory() int {
	var taken [][]byte
	for range 2 * addressSpace >> 16 {
		taken = append(taken, make([]byte, 64<<20))
	}
	runtime.KeepAlive(taken)
	return 0
}

// The bound has to hold, or memory without end would go unnoticed.
func TestMemoryIsBounded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := bounded(t.Context(), self)
	cmd.Env = append(os.Environ(), greedyVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "out of memory") {
		t.Errorf("a program that takes %d MB ended with %v: %.300s", 2*addressSpace>>10, err, out)
	}
}
