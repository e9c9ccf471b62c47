package main

import "time"

// step is one group of proofs: tests of one package that need nothing of each
// other.
type step struct {
	name string
	// pkg is the package, run the tests of it as for go test -run.
	pkg, run string
	race     bool
	// short and full are the time limits of the two sizes; a step that needs more
	// fails.
	short, full time.Duration
	// rows are those that it has to give: fault, and store in brackets.
	rows []string
}

// steps are all proofs, in the order of the table.
var steps = []step{
	{
		name: "waiters", pkg: "./prove/waiters", run: ".",
		short: 2 * time.Minute, full: 10 * time.Minute,
		rows: []string{
			"duplicate arrives at another sidecar [redis]",
			"duplicate elsewhere, subscription cut all the time [redis]",
		},
	},
}
