package catalog

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
)

// Generation is what one config made. Readers take a snapshot without a lock;
// writers replace it whole, so that a reader sees all of an update or nothing
// of it.
type Generation struct {
	profiles Profiles
	limits   Limits

	mu       sync.Mutex // serialises writers
	advice   Advice
	sources  map[string]source
	owned    map[string]string // the source that has a name
	by       owners            // of the snapshot
	snapshot atomic.Pointer[Snapshot]

	// leases counts those that are out; from retired on it is below zero by
	// that much, which refuses further ones.
	leases atomic.Int64
	idle   chan struct{} // closed when retired and without a lease
}

// retired is what Retire takes off the count of leases.
const retired = math.MinInt64 / 2

// NewGeneration returns a generation without tools.
func NewGeneration(profiles Profiles, limits Limits) *Generation {
	g := &Generation{profiles: profiles, limits: limits, sources: make(map[string]source), owned: make(map[string]string), idle: make(chan struct{})}
	g.snapshot.Store(newSnapshot(profiles, limits, owners{}, nil))
	return g
}

// Set replaces the tools of one source. The tools that now are not registered
// because their name is another's are returned.
func (g *Generation) Set(name string, routes []*Route) []Collision {
	return g.update(name, func(s *source) { *s = source{announced: s.announced, routes: routes} })
}

// Taken tells who has a name that a backend would like to have; nil when it may.
func (g *Generation) Taken(name, backend string) *Collision {
	g.mu.Lock()
	defer g.mu.Unlock()
	owner := g.by.of(name, backend)
	if owner == backend {
		return nil
	}
	c := g.by.collision(name, owner, backend)
	return &c
}

// Inherit gives the names that a generation's sources have to those of this one. Of a
// source that has not been heard of here yet, they are kept until it is.
func (g *Generation) Inherit(before *Generation) {
	before.mu.Lock()
	owned := maps.Clone(before.owned)
	before.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owned = owned
	g.snapshot.Store(g.compose())
}

// SetDown records that a source cannot be reached. Its tools stay registered:
// they fail by themselves, with the right error, and come back by themselves.
func (g *Generation) SetDown(name, reason string) {
	g.update(name, func(s *source) { s.down = reason })
}

func (g *Generation) update(name string, change func(*source)) []Collision {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sources[name]
	change(&s)
	g.sources[name] = s
	next := g.compose()
	g.snapshot.Store(next)
	return next.collisions
}

// compose puts together what can be called now.
func (g *Generation) compose() *Snapshot {
	g.by = newOwners(g.sources, maps.Clone(g.owned))
	s := newSnapshot(g.profiles, g.limits, g.by, g.owned)
	g.by.before = g.owned
	s.Advice = g.advice
	return s
}

// Snapshot returns what can be called now, for who only looks. Who calls takes a
// lease.
func (g *Generation) Snapshot() *Snapshot { return g.snapshot.Load() }

// lease counts one more lease; false when the generation is retired.
func (g *Generation) lease() bool {
	for {
		out := g.leases.Load()
		if out < 0 {
			return false
		}
		if g.leases.CompareAndSwap(out, out+1) {
			return true
		}
	}
}

func (g *Generation) release() {
	if g.leases.Add(-1) == retired {
		close(g.idle)
	}
}

// Retire refuses further leases and waits until the last one is given back, or
// ctx ends. Until it returns nil, nothing that the generation's routes use may be
// closed. It is called once.
func (g *Generation) Retire(ctx context.Context) error {
	if g.leases.Add(retired) == retired {
		return nil
	}
	select {
	case <-g.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d calls still use what was to be closed: %w", g.leases.Load()-retired, ctx.Err())
	}
}

// Advise sets by what failed calls are told, from now on.
func (g *Generation) Advise(advice Advice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advice = advice
	g.snapshot.Store(g.compose())
}
