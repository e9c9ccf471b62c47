package main

import (
	"slices"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
)

// step is one group of proofs: tests of one package that need nothing of each
// other.
type step struct {
	name string
	// pkg is the package, run and skip the tests of it as for go test.
	pkg, run, skip string
	// race: in short form the tests and their sidecars are built with the race
	// detector. The full form runs what is released.
	race bool
	// clock: a clock judges it (delays, rates, percentiles), or it takes minutes of
	// load or search. A machine that stands still for some seconds may break it, so
	// that `make test` leaves it to `make prove`.
	clock bool
	// short and full are the time limits of the two sizes; a step that needs more
	// fails.
	short, full time.Duration
	// rows are those that it has to give: fault, and store in brackets; fullRows
	// are given in full size only.
	rows, fullRows []string
}

// wanted are the rows of a step in the size that is run.
func (s step) wanted(full bool) []string {
	if full {
		return slices.Concat(s.rows, s.fullRows)
	}
	return s.rows
}

// outcome is what came of a step.
type outcome struct {
	step     step
	rows     []proof.Row
	problems []string
}
