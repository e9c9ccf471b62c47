//go:build prove

package fuzz_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/e2e/harness"
	"github.com/sidecall/sidecall/prove/fuzz"
	"github.com/sidecall/sidecall/prove/proof"
)

const (
	// addressSpace is what a process that fuzzes may map, in KiB: what takes
	// memory without end dies of it, and the fuzzer keeps the input.
	addressSpace = 4 << 20
	// lanes is how many targets are fuzzed at the same time in the short form.
	lanes = 2
)

// Every target, for a while: no new input on which one panics, breaks a
// promise, hangs, or takes memory without end.
func TestFuzz(t *testing.T) {
	binaries := build(t)
	var mu sync.Mutex
	var total result
	var wg sync.WaitGroup
	work := make(chan fuzz.Target)
	for range proof.Runs(lanes, 1) {
		wg.Go(func() {
			for target := range work {
				r := run(t, target, binaries[target.Package])
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
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = harness.Root()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", target.Package, err, out)
		}
		binaries[target.Package] = path
	}
	return binaries
}

// run fuzzes one target.
func run(t *testing.T, target fuzz.Target, binary string) result {
	t.Helper()
	took := proof.Pick(shortTime, fullTime)
	ctx, cancel := context.WithTimeout(t.Context(), took+2*time.Minute)
	defer cancel()
	cache, err := os.MkdirTemp("", "sidecall-fuzz-") //nolint:usetesting // t.TempDir waits for the end of all targets to give disk space back
	if err != nil {
		t.Error(err)
		return result{failed: 1}
	}
	defer os.RemoveAll(cache)
	cmd := bounded(ctx, binary,
		"-test.run=^$", "-test.fuzz=^"+target.Name+"$", "-test.fuzztime="+took.String(),
		"-test.fuzzminimizetime=1s", "-test.parallel=1", "-test.fuzzcachedir="+cache)
	cmd.Dir = filepath.Join(harness.Root(), filepath.FromSlash(target.Package))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	r := result{targets: 1, executions: executions(string(out))}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.peak = usage.Maxrss << 10 // of the largest of the processes, in KiB
	}
	switch {
	case err != nil && !onlyLate(string(out)):
		r.failed = 1
		t.Errorf("%s.%s: %v\n%s", target.Package, target.Name, err, out)
	case r.executions == 0:
		r.failed = 1
		t.Errorf("%s.%s: nothing was executed\n%s", target.Package, target.Name, out)
	default:
		t.Logf("%s.%s: %d executions, %d MB", target.Package, target.Name, r.executions, r.peak>>20)
	}
	return r
}

// onlyLate reports whether a fuzzer failed with nothing but the end of its time,
// as go test does on a busy machine when a worker is slow to stop.
func onlyLate(out string) bool {
	return strings.Contains(out, "\n    context deadline exceeded\n") && !strings.Contains(out, "Failing input written to") && !strings.Contains(out, "panic:")
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

func TestExecutionsAreRead(t *testing.T) {
	const out = "fuzz: elapsed: 0s, gathering baseline coverage: 3/51 completed\nfuzz: elapsed: 0s, gathering baseline coverage: 51/51 completed, now fuzzing with 1 workers\n" +
		"fuzz: elapsed: 3s, execs: 13572 (4524/sec), new interesting: 60 (total: 111)\nfuzz: elapsed: 6s, execs: 33850 (6749/sec)\nPASS\n"
	if n := executions(out); n != 33901 {
		t.Errorf("%d executions, want 33901", n)
	}
	late := out + "--- FAIL: FuzzX (6.04s)\n    context deadline exceeded\nFAIL\n"
	if onlyLate(out) || !onlyLate(late) || onlyLate(late+"    Failing input written to testdata/fuzz/FuzzX/1\n") {
		t.Error("a fuzzer that is late is not told from one that has found something")
	}
	if n := executions("PASS\n"); n != 0 {
		t.Errorf("%d executions of a fuzzer that says nothing", n)
	}
}

var (
	seeded   = regexp.MustCompile(`(?:gathering baseline coverage|testing seed corpus): (\d+)/`)
	progress = regexp.MustCompile(`execs: (\d+) `)
)

// executions is how many inputs a fuzzer says that it tried, seeds included.
func executions(out string) int { return last(seeded, out) + last(progress, out) }

// last is the last number that a pattern finds; 0 when it finds none.
func last(pattern *regexp.Regexp, out string) int {
	all := pattern.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1][1]) // digits; too many of them are not 0 either
	return n
}
