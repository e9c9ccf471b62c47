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

// Place is a place in a Bulkhead, or none. The zero value is none; it is not copied.
type Place struct{ in atomic.Pointer[Bulkhead] }

// Acquire takes a place, which Leave gives back; false when there is none.
func (b *Bulkhead) Acquire(p *Place) bool {
	if b == nil {
		return true
	}
	// Not Add and look: a refused caller would then hold a place for an
	// instant, and make another one be refused that would have fitted.
	for {
		taken := b.inFlight.Load()
		if taken >= b.max {
			return false
		}
		if b.inFlight.CompareAndSwap(taken, taken+1) {
			p.in.Store(b)
			return true
		}
	}
}

// Leave gives the place back. Only its first call does something, from whatever goroutine
// it comes.
func (p *Place) Leave() {
	if b := p.in.Swap(nil); b != nil {
		b.inFlight.Add(-1)
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
