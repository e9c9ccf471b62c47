// Command prove runs the proofs below prove/ and prints one table of what was
// done to Sidecall, how often, how often a promise was broken, and what was
// measured. It exits with 1 when a promise was broken, or a proof that should
// be there is not.
//
//	go run ./prove               the short form, a few minutes
//	go run ./prove -full         everything, some hours
//	go run ./prove -run 'crash'  the steps whose name matches
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/sidecall/sidecall/prove/proof"
)

func main() {
	full := flag.Bool("full", false, "run every proof in full size")
	only := flag.String("run", "", "run only the steps whose name matches this regular expression")
	verbose := flag.Bool("v", false, "print the output of every step, not only of those that fail")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "prove: want flags alone, and a regular expression for -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r := runner{full: *full, verbose: *verbose, out: os.Stdout}
	broken := r.all(ctx, steps, pattern)
	stop()
	if broken > 0 {
		os.Exit(1)
	}
}

// runner runs steps one after the other, so that none disturbs the figures of
// another.
type runner struct {
	full, verbose bool
	out           io.Writer
}

// outcome is what came of a step.
type outcome struct {
	step     step
	rows     []proof.Row
	problems []string
}

// all runs the steps that match and prints the table. It returns how many of
// them have a problem; running none is one.
func (r runner) all(ctx context.Context, steps []step, pattern *regexp.Regexp) (broken int) {
	began := time.Now()
	var outcomes []outcome
	for _, s := range steps {
		if !pattern.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		o := r.one(ctx, s)
		outcomes = append(outcomes, o)
		if len(o.problems) > 0 {
			broken++
		}
	}
	printTable(r.out, outcomes)
	printVerdict(r.out, r.full, outcomes, time.Since(began).Round(time.Second))
	if len(outcomes) == 0 || ctx.Err() != nil {
		broken++
	}
	return broken
}
