//go:build prove

package fuzz_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/transcript"
)

const (
	// pace is how often a fuzzer is looked at.
	pace = 20 * time.Millisecond
	// spare is what a fuzzer has for its start and its end, and an input that
	// does not end has of it the ten seconds that Go gives it.
	spare = 2 * time.Minute
)

// fuzzer is one target of a test binary, to be fuzzed for a while.
//
// Go's fuzzer ends a process that spends ten seconds on one input, and keeps the
// input. But when its time is over it kills a process that hangs, and passes. So
// the limit that it is given is far away: it is watched from outside, and told to
// end after an input has come to its end.
type fuzzer struct {
	binary, dir, name string
	lasts             time.Duration
}

// fuzzing is what came of it.
type fuzzing struct {
	// executions are the inputs that the fuzzer made up; seeds do not count.
	executions int
	// peak is the most memory that one of its processes had, in bytes.
	peak int64
	// problem is empty for a target that bore all of it.
	problem string
}

// run runs a fuzzer and returns what it printed, too.
func run(t *testing.T, f fuzzer) (fuzzing, string) {
	t.Helper()
	scratch, err := os.MkdirTemp("", "sidecall-fuzz-") //nolint:usetesting // t.TempDir waits for the end of all targets to give disk space back
	if err != nil {
		return fuzzing{problem: err.Error()}, ""
	}
	defer os.RemoveAll(scratch)
	ctx, cancel := context.WithTimeout(t.Context(), f.lasts+spare)
	defer cancel()
	out := &transcript.Transcript{}
	cmd := f.command(ctx, scratch, out)
	if err := cmd.Start(); err != nil {
		return fuzzing{problem: err.Error()}, ""
	}
	ended, watched := make(chan struct{}), make(chan error, 1)
	go func() { watched <- f.watch(cmd.Process, scratch, out, ended) }()
	err = cmd.Wait()
	close(ended)
	err = errors.Join(err, <-watched)
	text := out.String()
	r := fuzzing{executions: executions(text)}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.peak = usage.Maxrss << 10 // of the largest of the processes, in KiB
	}
	switch {
	case err != nil:
		r.problem = err.Error()
	case r.executions <= 0:
		r.problem = "nothing was executed but the seeds"
	}
	return r, text
}

// command is the process of a fuzzer, which keeps what it needs in scratch.
func (f fuzzer) command(ctx context.Context, scratch string, out io.Writer) *exec.Cmd {
	cmd := bounded(ctx, f.binary,
		"-test.run=^$", "-test.fuzz=^"+f.name+"$", "-test.fuzztime="+(f.lasts+spare).String(),
		"-test.fuzzminimizetime=1s", "-test.parallel=1", "-test.fuzzcachedir="+filepath.Join(scratch, "cache"))
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch) // see state
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// watch interrupts a fuzzer that has had its time, unless it hangs: then it ends
// by itself.
func (f fuzzer) watch(process *os.Process, scratch string, out *transcript.Transcript, ended <-chan struct{}) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var began time.Time
	var inputs int // that came to their end when the time was over
	for before := ""; inputs < 2; {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		now := state(scratch)
		switch {
		case began.IsZero() && strings.Contains(out.String(), "now fuzzing"):
			began = time.Now()
		case !began.IsZero() && time.Since(began) >= f.lasts && now != before:
			inputs++
		}
		before = now
	}
	if err := process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// state is something else after every input: the fuzzer and its worker share a
// file among their temporary ones, at the beginning of which the worker counts,
// before the input it was given. Nothing documents that; were it not so, no input
// would ever come to its end, and every target would fail.
func state(scratch string) string {
	shared, err := filepath.Glob(filepath.Join(scratch, "fuzz-*"))
	if err != nil {
		panic(err) // the pattern is right
	}
	var all strings.Builder
	for _, path := range shared {
		file, err := os.Open(path)
		if err != nil {
			continue // gone with its worker
		}
		_, _ = io.CopyN(&all, file, 4<<10) // what cannot be read is no progress
		_ = file.Close()
	}
	return all.String()
}

var (
	seeded   = regexp.MustCompile(`(?:gathering baseline coverage|testing seed corpus): (\d+)/`)
	progress = regexp.MustCompile(`execs: (\d+) `)
)

// executions is how many inputs a fuzzer says that it tried, without the seeds,
// which it counts among them.
func executions(out string) int { return max(0, last(progress, out)-last(seeded, out)) }

// last is the last number that a pattern finds; 0 when it finds none.
func last(pattern *regexp.Regexp, out string) int {
	all := pattern.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1][1]) // digits; too many of them are not 0 either
	return n
}

// A target that never comes back on an input fails, however short the time is,
// and the input is kept.
func TestHangIsSeen(t *testing.T) {
	t.Parallel()
	f := sample(t, time.Millisecond, `for s != "seed" { time.Sleep(time.Millisecond) }`)
	r, out := run(t, f)
	if !strings.Contains(out, "hung or terminated unexpectedly") || r.problem == "" {
		t.Errorf("an endless loop: %+v\n%s", r, out)
	}
	kept, err := filepath.Glob(filepath.Join(f.dir, "testdata", "fuzz", f.name, "*"))
	if err != nil || len(kept) != 1 || !strings.Contains(out, filepath.Base(kept[0])) {
		t.Errorf("kept %q, %v\n%s", kept, err, out)
	}
}

// The same target passes when it comes back: it is the hang that fails.
func TestWhatEndsPasses(t *testing.T) {
	t.Parallel()
	f := sample(t, time.Second, `if s != "seed" { time.Sleep(time.Millisecond) }`)
	if r, out := run(t, f); r.problem != "" || r.executions == 0 {
		t.Errorf("%+v\n%s", r, out)
	}
}

// sample makes a module with one target, and the binary of it.
func sample(t *testing.T, lasts time.Duration, body string) fuzzer {
	t.Helper()
	module := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"sample_test.go": "package sample\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc FuzzSample(f *testing.F) {\n\tf.Add(\"seed\")\n" +
			"\tf.Fuzz(func(t *testing.T, s string) { " + body + " })\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := fuzzer{binary: filepath.Join(module, "sample.test"), dir: module, name: "FuzzSample", lasts: lasts}
	compile(t, module, "test", "-c", "-o", f.binary, ".")
	return f
}

func TestExecutionsAreRead(t *testing.T) {
	const seeds = "fuzz: elapsed: 0s, gathering baseline coverage: 3/51 completed\nfuzz: elapsed: 0s, gathering baseline coverage: 51/51 completed, now fuzzing with 1 workers\n"
	for out, want := range map[string]int{
		seeds + "fuzz: elapsed: 3s, execs: 13572 (4524/sec), new interesting: 60 (total: 111)\nfuzz: elapsed: 6s, execs: 33850 (6749/sec)\nPASS\n": 33799,
		seeds + "fuzz: elapsed: 1s, execs: 51 (34/sec)\nPASS\n": 0,
		seeds + "PASS\n": 0,
		"PASS\n":         0,
	} {
		if n := executions(out); n != want {
			t.Errorf("%d executions, want %d: %s", n, want, out)
		}
	}
}
