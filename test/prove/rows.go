package main

import (
	"fmt"
	"slices"

	"github.com/sidecall/sidecall/test/prove/proof"
)

// missing compares the rows of a step with those that it has to give: a proof
// that silently ran nothing, or runs that nobody expects, are found here.
func missing(wanted []string, rows []proof.Row) (problems []string) {
	var got []string
	for _, row := range rows {
		name := rowName(row)
		if slices.Contains(got, name) {
			problems = append(problems, "two rows: "+name)
		}
		if !slices.Contains(wanted, name) {
			problems = append(problems, "an unexpected row: "+name)
		}
		if row.Violations > 0 || row.Runs <= 0 {
			problems = append(problems, fmt.Sprintf("%s: %d runs, %d violations", name, row.Runs, row.Violations))
		}
		got = append(got, name)
	}
	for _, name := range wanted {
		if !slices.Contains(got, name) {
			problems = append(problems, "a missing row: "+name)
		}
	}
	return problems
}

// tooFew are the rows with fewer runs than was promised.
func tooFew(least map[string]int, rows []proof.Row) (problems []string) {
	for _, row := range rows {
		if name := rowName(row); row.Runs < least[name] {
			problems = append(problems, fmt.Sprintf("%s: %d runs, want at least %d", name, row.Runs, least[name]))
		}
	}
	return problems
}

// rowName is how the steps call a row.
func rowName(row proof.Row) string {
	if row.Store == "" {
		return row.Fault
	}
	return row.Fault + " [" + row.Store + "]"
}
