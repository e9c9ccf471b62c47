package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// runner runs steps, each in a process of its own.
type runner struct {
	full, counted, verbose bool
	// together is how many steps run at a time, where no clock judges them: for
	// the most part they wait. One when it is less.
	together int
	out      io.Writer
	// printing is held by the step that prints what came of it.
	printing *sync.Mutex
}

// all runs the steps that were asked for and prints the table. It reports whether
// nothing that was run has a problem; running nothing is one.
func (r runner) all(ctx context.Context, steps []step, pattern *regexp.Regexp) bool {
	began := time.Now()
	r.printing = new(sync.Mutex)
	outcomes := make([]*outcome, len(steps)) // nil for what was not run
	r.each(steps, func(i int, s step) {
		if pattern.MatchString(s.name) && (!r.counted || !s.clock) && ctx.Err() == nil {
			outcomes[i] = r.one(ctx, s)
		}
	})
	sum := summary{full: r.full}
	for i, o := range outcomes {
		if o == nil {
			sum.left = append(sum.left, steps[i].name)
		} else {
			sum.outcomes = append(sum.outcomes, *o)
		}
	}
	sum.interrupted = ctx.Err() != nil
	sum.took = time.Since(began).Round(time.Second)
	printTable(r.out, sum.outcomes)
	sum.print(r.out)
	return len(sum.problems()) == 0
}

// each does something for every step: first for those that only count, some at a
// time, then for those that a clock judges, each with the machine to itself.
func (r runner) each(steps []step, do func(i int, s step)) {
	var counting errgroup.Group
	counting.SetLimit(max(r.together, 1))
	for i, s := range steps {
		if !s.clock {
			counting.Go(func() error {
				do(i, s)
				return nil
			})
		}
	}
	_ = counting.Wait() // what goes wrong stands in the outcome
	for i, s := range steps {
		if s.clock {
			do(i, s)
		}
	}
}

// one runs a step and says what came of it.
func (r runner) one(ctx context.Context, s step) *outcome {
	began := time.Now()
	o := &outcome{step: s}
	text, err := r.test(ctx, s, o)
	if err != nil {
		o.problems = append(o.problems, err.Error())
	}
	o.problems = append(o.problems, missing(s.wanted(r.full), o.rows)...)
	if r.full {
		o.problems = append(o.problems, tooFew(leastRuns, o.rows)...)
	}
	verdict := "ok"
	if len(o.problems) > 0 {
		verdict = "BROKEN"
	}
	r.printing.Lock()
	defer r.printing.Unlock()
	if r.verbose || len(o.problems) > 0 {
		_, _ = r.out.Write(text) // a lost line of progress changes nothing
	}
	say(r.out, "--- %s: %s, %d rows, %s\n", s.name, verdict, len(o.rows), time.Since(began).Round(time.Second))
	return o
}

// test runs the tests of a step in a process of their own.
func (r runner) test(ctx context.Context, s step, o *outcome) (text []byte, err error) {
	dir, err := os.MkdirTemp("", "sidecall-prove-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rows := filepath.Join(dir, "rows")
	size, limit := "short", s.short
	if r.full {
		size, limit = "full", s.full
	}
	// go vet is a part of make lint.
	args := []string{"test", "-tags", "prove", "-vet=off", "-count=1", "-v", "-timeout", limit.String(), "-run", s.run, "-skip", s.skip}
	env, _ := environment(os.Environ())
	env = append(env, proof.SizeEnv+"="+size, proof.RowsEnv+"="+rows)
	if s.race && !r.full {
		args, env = append(args, "-race"), append(env, harness.RaceEnv+"=1")
	}
	cmd := exec.CommandContext(ctx, harness.Go(), append(args, s.pkg)...)
	cmd.Env = env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Writer(&output), io.Writer(&output)
	if failure := runGroup(cmd); failure != nil {
		err = fmt.Errorf("go test %s -run %s: %w", s.pkg, s.run, failure)
	}
	found, unreadable := proof.Read(rows)
	o.rows = found
	return output.Bytes(), errors.Join(err, unreadable)
}

// runGroup runs a command with all processes that it starts: go test gives an
// interrupt to no test, and a proof that goes on would disturb the next.
func runGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The test's own time limit comes first; it says where it hung.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if cmd.Process == nil {
		return err
	}
	if left := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(left, syscall.ESRCH) {
		err = errors.Join(err, left)
	}
	return err
}

// environment is what of an environment the tests get, and the variables that
// they do not get: those for looking into one proof make it smaller, or build
// something else than what is released, and the table would not tell.
func environment(all []string) (kept, dropped []string) {
	for _, variable := range all {
		if strings.HasPrefix(variable, proof.SizeEnv) || strings.HasPrefix(variable, harness.RaceEnv+"=") {
			dropped = append(dropped, variable)
		} else {
			kept = append(kept, variable)
		}
	}
	return kept, dropped
}
