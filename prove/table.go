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

// printVerdict prints what is wrong, and the sum.
func printVerdict(out io.Writer, full bool, outcomes []outcome, took time.Duration) {
	rows, violations, broken := 0, 0, 0
	for _, o := range outcomes {
		rows += len(o.rows)
		for _, row := range o.rows {
			violations += row.Violations
		}
		for _, problem := range o.problems {
			broken++
			say(out, "BROKEN %s: %s\n", o.step.name, problem)
		}
	}
	size := "short form"
	if full {
		size = "full form"
	}
	verdict := "PROVEN"
	if broken > 0 || rows == 0 {
		verdict = "NOT PROVEN"
	}
	say(out, "\n%s: %s, %d steps, %d rows, %d violations, %s\n", verdict, size, len(outcomes), rows, violations, took)
}

func say(out io.Writer, format string, args ...any) {
	if _, err := fmt.Fprintf(out, format, args...); err != nil {
		panic(err) // as above
	}
}
