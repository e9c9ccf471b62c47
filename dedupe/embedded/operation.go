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

	// taken is set by the committer, or by the caller who withdraws the operation, whoever
	// comes first.
	taken atomic.Bool
	done  chan struct{} // closed when err and what apply has found are final
	err   error
}

func newOperation(room dedupe.Room, bytes int, apply func(t *txn) error) *operation {
	return &operation{apply: apply, bytes: bytes, room: room, done: make(chan struct{})}
}

// stepping is the operation of a step.
func stepping(step dedupe.Step) *operation {
	return newOperation(step.Room(), step.Bytes(), func(t *txn) error { return step.Apply(t) })
}

// take reports that nobody else has taken the operation.
func (o *operation) take() bool { return !o.taken.Swap(true) }
