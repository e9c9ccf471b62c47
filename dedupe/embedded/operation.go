package embedded

import (
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
)

// groupBytes bounds what the operations of one transaction write.
const groupBytes = 16 << 20

// operation is one request on its way through the committer. Its caller waits for done.
type operation struct {
	// apply does its work in a transaction. It may run again, in another
	// transaction, when the first one came to nothing.
	apply func(t *txn) error
	// bytes is roughly how much it writes, and room what it does to a file that is full.
	bytes int
	room  dedupe.Room

	phase atomic.Int32
	done  chan struct{} // closed when err and what apply has found are final
	err   error
}

// The phases of an operation. Whoever moves it out of queued, decides: the
// committer takes it, or its caller withdraws it.
const (
	queued = iota
	taken
	withdrawn
)

func newOperation(room dedupe.Room, bytes int, apply func(t *txn) error) *operation {
	return &operation{apply: apply, bytes: bytes, room: room, done: make(chan struct{})}
}

// stepping is the operation of a step.
func stepping(step dedupe.Step) *operation {
	return newOperation(step.Room(), step.Bytes(), func(t *txn) error { return step.Apply(t) })
}

// take claims the operation for the committer; false when it was withdrawn.
func (o *operation) take() bool { return o.phase.CompareAndSwap(queued, taken) }

// withdraw takes the operation back; false when it is too late.
func (o *operation) withdraw() bool { return o.phase.CompareAndSwap(queued, withdrawn) }

func (o *operation) finish(err error) {
	o.err = err
	close(o.done)
}
