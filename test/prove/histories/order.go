package histories

import (
	"context"
	"sync"

	"github.com/sidecall/sidecall/dedupe"
)

// Order asks a process for its part in one phase of a history.
type Order struct {
	Seed           uint64
	History, Phase int
	// Clients are the numbers of those that this process has, of Total.
	Clients []int
	Total   int
	// Conclude asks for the last looks at every key instead.
	Conclude bool
	// Reopen asks for nothing of a history, but for the store to be closed, in the
	// middle of whatever is under way, and to be opened again.
	Reopen bool
}

// Perform carries an order out on a store and returns when that is done; base
// says what all of its clients share.
func (o Order) Perform(ctx context.Context, store dedupe.Store, base Client) {
	base.Plan, base.Store = NewPlan(o.Seed, o.History), store
	base.Phase, base.Clients = o.Phase, o.Total
	if o.Conclude {
		base.Number = o.Total
		base.Conclude(ctx)
		return
	}
	var clients sync.WaitGroup
	for _, number := range o.Clients {
		client := base
		client.Number = number
		clients.Go(func() { client.Run(ctx) })
	}
	clients.Wait()
}

// Recorder collects the operations of histories as they are told of.
type Recorder struct {
	mu  sync.Mutex
	ops map[int]map[place]Operation
}

// place names an operation within its history.
type place struct{ client, phase, seq int }

// NewRecorder returns an empty one.
func NewRecorder() *Recorder { return &Recorder{ops: map[int]map[place]Operation{}} }

// Add notes an operation of a phase of its history: before it is made, after
// it, or both, the latter of which counts.
func (r *Recorder) Add(phase int, op Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ops[op.History] == nil {
		r.ops[op.History] = map[place]Operation{}
	}
	r.ops[op.History][place{op.Client, phase, op.Seq}] = op
}

// Take returns the operations of a history and forgets them. What had no answer
// in a phase that ended at an instant, took effect before it, or never.
func (r *Recorder) Take(history int, ends map[int]int64) []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Operation, 0, len(r.ops[history]))
	for at, op := range r.ops[history] {
		if end, ended := ends[at.phase]; ended && !op.Heard {
			op.Return = max(end, op.Call)
		}
		all = append(all, op)
	}
	delete(r.ops, history)
	return all
}
