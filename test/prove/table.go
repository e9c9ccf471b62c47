package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints every row of every step, in the order of the steps.
func printTable(out io.Writer, outcomes []outcome) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) {
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // Flush says what went wrong
	}
	line("\nFAULT", "STORE", "RUNS", "VIOLATIONS", "FIGURE")
	for _, o := range outcomes {
		for _, row := range o.rows {
			line(row.Fault, orDash(row.Store), strconv.Itoa(row.Runs), strconv.Itoa(row.Violations), row.Figure)
		}
	}
	if err := w.Flush(); err != nil {
		panic(err) // the table is all that this program is for
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shortForm is how long the short form may take as a whole. What takes longer is
// said and no failure: it tells of the machine, not of a promise.
const shortForm = 10 * time.Minute

// summary is what came of a run.
type summary struct {
	full     bool
	outcomes []outcome
	// left are the steps that were not run.
	left        []string
	interrupted bool
	took        time.Duration
}

// problems are all reasons why nothing is proven.
func (s summary) problems() (all []string) {
	rows := 0
	for _, o := range s.outcomes {
		rows += len(o.rows)
		for _, problem := range o.problems {
			all = append(all, o.step.name+": "+problem)
		}
	}
	if rows == 0 {
		all = append(all, "no row at all")
	}
	if s.interrupted {
		all = append(all, "interrupted")
	}
	return all
}

// print prints what is wrong, what was left out, and the sum.
func (s summary) print(out io.Writer) {
	rows, violations := 0, 0
	for _, o := range s.outcomes {
		rows += len(o.rows)
		for _, row := range o.rows {
			violations += row.Violations
		}
	}
	problems := s.problems()
	for _, problem := range problems {
		say(out, "BROKEN %s\n", problem)
	}
	if !s.full && s.took > shortForm {
		say(out, "SLOW the short form took %v, and is meant to take %v at most\n", s.took, shortForm)
	}
	if len(s.left) > 0 {
		say(out, "LEFT OUT %s\n", strings.Join(s.left, "; "))
	}
	size := "short form"
	if s.full {
		size = "full form"
	}
	verdict := "PROVEN"
	switch {
	case len(problems) > 0:
		verdict = "NOT PROVEN"
	case len(s.left) > 0:
		verdict = "PARTIAL"
	}
	say(out, "\n%s: %s, %d of %d steps, %d rows, %d violations, %s\n", verdict, size,
		len(s.outcomes), len(s.outcomes)+len(s.left), rows, violations, s.took)
}

func say(out io.Writer, format string, args ...any) {
	if _, err := fmt.Fprintf(out, format, args...); err != nil {
		panic(err) // as above
	}
}
