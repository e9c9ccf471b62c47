package histories

import (
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// firstTry is how long the whole of a history is searched before parts of it are:
	// hardly one takes that long.
	firstTry = 2 * time.Second
	// partTry bounds the search of a part. One that is an order shows it at once.
	partTry = time.Second
	// mostLost bounds how many requests without an answer a part has.
	mostLost = 3
)

// table is the model, which keeps nothing between two histories.
var table = sync.OnceValue(model)

// decide searches an order of the operations on one key.
//
// A request without an answer may take effect at any time after its call, or never.
// With ten of them, each tried everywhere and after every other, the search may not
// be over in a day, where an order with one or two of them is found in milliseconds.
// So when it takes long, those orders are looked for first in which few of them took
// effect at all: such an order is one of the whole history too. That there is none
// is left to the search of the whole.
func decide(operations []porcupine.Operation, limit time.Duration) porcupine.CheckResult {
	first := porcupine.CheckOperationsTimeout(table(), operations, min(firstTry, limit))
	if first != porcupine.Unknown || limit <= firstTry {
		return first
	}
	until := time.Now().Add(limit - firstTry)
	var heard, lost []porcupine.Operation
	for _, op := range operations {
		if op.Return == Never {
			lost = append(lost, op)
		} else {
			heard = append(heard, op)
		}
	}
	for size := range min(mostLost, len(lost)) + 1 {
		if ordered(heard, lost, size, until) {
			return porcupine.Ok
		}
	}
	return porcupine.CheckOperationsTimeout(table(), operations, max(time.Until(until), time.Second))
}

// ordered reports whether an order was found of some operations with so many of
// others.
func ordered(chosen, rest []porcupine.Operation, size int, until time.Time) bool {
	if size == 0 {
		return porcupine.CheckOperationsTimeout(table(), chosen, partTry) == porcupine.Ok
	}
	for i := range rest {
		if time.Now().After(until) {
			return false
		}
		if ordered(append(slices.Clip(chosen), rest[i]), rest[i+1:], size-1, until) {
			return true
		}
	}
	return false
}
