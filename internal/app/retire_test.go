package app

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
)

// closed is a backend that tells when it is closed.
type closed struct {
	backend.Backend

	done chan struct{}
}

func (c closed) Close(context.Context) error { close(c.done); return nil }

func (c closed) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// A backend is there for as long as a call may use it, and no longer than the end
// of a sidecar may take.
func TestBackendsOutliveTheCallsThatUseThem(t *testing.T) {
	for name, givesBack := range map[string]bool{"a call that ends": true, "a call that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				its := closed{done: make(chan struct{})}
				g := &generation{
					hosts: map[string]*host{"shop": {built: built{Backend: its}}},
					tools: catalog.NewGeneration(catalog.Profiles{}, catalog.Limits{}),
				}
				lease := catalog.New(g.tools).Lease()
				ctx, cancel := context.WithTimeout(t.Context(), closing)
				defer cancel()
				retired := make(chan error, 1)
				go func() { retired <- g.retire(ctx) }()
				synctest.Wait()
				if its.isDone() {
					t.Error("the backend was closed under a call")
				}
				if givesBack {
					lease.Release()
				}
				if err := <-retired; (err == nil) != givesBack || !its.isDone() {
					t.Errorf("retired: %v, closed: %v", err, its.isDone())
				}
			})
		})
	}
}
