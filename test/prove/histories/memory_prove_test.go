//go:build prove

package histories

import (
	"context"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/test/prove/proof"
)

// TestMemory: many goroutines on one store.
func TestMemory(t *testing.T) {
	const clients, lanes = 5, 32
	store := embedded.InMemory(embedded.Options{})
	defer closing(t, store)
	run := newProof(t, "memory", proof.Runs(3_000, 50_000))
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for history, more := run.next(); more; history, more = run.next() {
				base := Client{Now: monotonic, Ended: func(op Operation) { run.recorder.Add(0, op) }}
				order := Order{Seed: run.seed, History: history, Clients: upTo(clients), Total: clients}
				order.Perform(context.Background(), store, base)
				order.Conclude = true
				order.Perform(context.Background(), store, base)
				run.check(history, nil, nil)
			}
		})
	}
	wg.Wait()
	run.report()
}
