package catalog

import "sync/atomic"

// Catalog holds the generation that calls get. It is safe for concurrent use.
type Catalog struct {
	current atomic.Pointer[Generation]
}

// New returns a catalog of a first generation.
func New(first *Generation) *Catalog {
	c := &Catalog{}
	c.current.Store(first)
	return c
}

// Snapshot returns what can be called now, for who only looks.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load().Snapshot() }

// Lease is a snapshot in use. What its routes hold stays open until Release,
// which is called once.
type Lease struct {
	*Snapshot

	generation *Generation
}

// Lease takes what can be called now. Of a catalog whose last generation is
// retired there is nothing to be had: its Snapshot has no tools.
func (c *Catalog) Lease() Lease {
	for {
		g := c.current.Load()
		if g.lease() {
			return Lease{g.Snapshot(), g}
		}
		if c.current.Load() == g {
			return Lease{Snapshot: newSnapshot(g.profiles, g.limits, owners{}, nil)}
		}
	}
}

// Share is the same lease for another user, who releases it too. It is taken
// before this one is given back.
func (l Lease) Share() Lease {
	if l.generation != nil {
		l.generation.leases.Add(1)
	}
	return l
}

// Release gives the lease back.
func (l Lease) Release() {
	if l.generation != nil {
		l.generation.release()
	}
}

// Swap makes a generation the current one and returns the one before, which the
// caller retires.
func (c *Catalog) Swap(next *Generation) (before *Generation) { return c.current.Swap(next) }
