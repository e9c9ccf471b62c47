// Command prove runs the proofs below prove/ and prints one table of what was
// done to Sidecall, how often, how often a promise was broken, and what was
// measured. It exits with 1 when a promise was broken, or a proof that should
// be there is not.
//
//	go run ./test/prove                       the short form, a few minutes
//	go run ./test/prove -full                 everything, some hours
//	go run ./test/prove -counted              without the steps that a clock judges: a part
//	go run ./test/prove -run 'crash|journal'  the steps whose name matches: a part
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	full := flag.Bool("full", false, "run every proof in full size")
	counted := flag.Bool("counted", false, "leave out the steps that are judged by a clock, or need minutes of load")
	together := flag.Int("together", 1, "how many of the other steps run at a time")
	only := flag.String("run", "", "run only the steps whose name matches this regular expression")
	verbose := flag.Bool("v", false, "print the output of every step, not only of those that fail")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 || *together < 1 {
		fmt.Fprintln(os.Stderr, "prove: want flags alone, a regular expression for -run, and at least one step together:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r := runner{full: *full, counted: *counted, verbose: *verbose, together: *together, out: os.Stdout}
	if _, dropped := environment(os.Environ()); len(dropped) > 0 {
		say(r.out, "not passed on: %s\n", strings.Join(dropped, " "))
	}
	good := r.all(ctx, steps, pattern)
	stop()
	if !good {
		os.Exit(1)
	}
}
