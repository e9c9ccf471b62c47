package limit

import "sync/atomic"

// Bulkhead bounds how many calls are in flight, so that one slow backend cannot
// take the memory and connections that the others need.
type Bulkhead struct {
	max      int64
	inFlight atomic.Int64
}

// NewBulkhead returns a bulkhead with that many places, or nil, which has no
// bound, when places is 0 or less.
func NewBulkhead(places int) *Bulkhead {
	if places <= 0 {
		return nil
	}
	return &Bulkhead{max: int64(places)}
}

// Acquire takes a place. When there is none, ok is false and release is nil.
// release gives the place back; only its first call does something, from
// whatever goroutine it comes.
func (b *Bulkhead) Acquire() (release func(), ok bool) {
	if b == nil {
		return func() {}, true
	}
	// Not Add and look: a refused caller would then hold a place for an
	// instant, and make another one be refused that would have fitted.
	for {
		taken := b.inFlight.Load()
		if taken >= b.max {
			return nil, false
		}
		if b.inFlight.CompareAndSwap(taken, taken+1) {
			p := &place{bulkhead: b}
			return p.release, true
		}
	}
}

// InFlight returns how many places are taken; 0 for a nil Bulkhead, which does
// not count.
func (b *Bulkhead) InFlight() int {
	if b == nil {
		return 0
	}
	return int(b.inFlight.Load())
}

// Max returns how many places there are; 0 means no bound.
func (b *Bulkhead) Max() int {
	if b == nil {
		return 0
	}
	return int(b.max)
}

// place is one place that was taken.
type place struct {
	bulkhead *Bulkhead
	free     atomic.Bool
}

func (p *place) release() {
	if !p.free.Swap(true) {
		p.bulkhead.inFlight.Add(-1)
	}
}
