package limit

import "sync/atomic"

// Bytes bounds what all that is at work holds at the same time, in bytes:
// requests as they came, replies while they are read. It is asked before memory
// is used. The nil Bytes has no bound.
type Bytes struct {
	of   *Bytes // what it is a part of; nil for a whole
	max  int64
	held atomic.Int64
}

// NewBytes returns a bound of that many bytes, or nil, which has none, when most
// is 0 or less.
func NewBytes(most int64) *Bytes {
	if most <= 0 {
		return nil
	}
	return &Bytes{max: most}
}

// Part returns a bound of one of so many parts of it: what is taken there is taken of
// both, so that nobody there keeps out who takes of another part.
func (b *Bytes) Part(of int) *Bytes {
	if b == nil || of <= 1 {
		return b
	}
	return &Bytes{of: b, max: max(b.max/int64(of), 1)}
}

// Max is the bound, in bytes; 0 means none.
func (b *Bytes) Max() int64 {
	if b == nil {
		return 0
	}
	return b.max
}

// Held is how many bytes are taken; 0 for a nil Bytes, which does not count.
func (b *Bytes) Held() int64 {
	if b == nil {
		return 0
	}
	return b.held.Load()
}

// Full reports that more than three quarters are taken by others than who holds
// so many: nothing new is to begin then, so that what is under way can end.
func (b *Bytes) Full(own int64) bool {
	return b != nil && b.held.Load()-own > b.max/4*3
}

// take takes n bytes; false when they do not fit. One that finds nothing taken
// always fits, however large it is: it would never fit otherwise.
func (b *Bytes) take(n int64) bool {
	for {
		held := b.held.Load()
		if held > 0 && held+n > b.max {
			return false
		}
		if b.held.CompareAndSwap(held, held+n) {
			break
		}
	}
	if b.of == nil || b.of.take(n) {
		return true
	}
	b.held.Add(-n)
	return false
}

// give gives n bytes back.
func (b *Bytes) give(n int64) {
	for ; b != nil; b = b.of {
		b.held.Add(-n)
	}
}

// Load is what one piece of work holds of a Bytes. The zero value has no bound.
// It is safe for concurrent use, and must not be copied.
type Load struct {
	of   *Bytes
	held atomic.Int64 // closed when negative
	more atomic.Int64 // holders beside the first
}

// closed is held when there is nothing to be taken any more.
const closed = -1

// Of makes the Load one of bytes, before it is first used.
func (l *Load) Of(bytes *Bytes) { l.of = bytes }

// Take takes n bytes more; false when they do not fit, or the work has ended.
func (l *Load) Take(n int64) bool {
	if l.of == nil {
		return true
	}
	for {
		held := l.held.Load()
		if held < 0 || !l.of.take(n) {
			return false
		}
		if l.held.CompareAndSwap(held, held+n) {
			return true
		}
		l.of.give(n)
	}
}

// Held is how many bytes it holds; 0 for a nil Load.
func (l *Load) Held() int64 {
	if l == nil {
		return 0
	}
	return max(l.held.Load(), 0)
}

// Empty gives back all that is held; more may be taken.
func (l *Load) Empty() { l.give(0) }

// Share adds a holder, who calls Release too. It may be nil.
func (l *Load) Share() *Load {
	if l != nil {
		l.more.Add(1)
	}
	return l
}

// Release gives back all that is held when the last holder calls it. It may be
// nil.
func (l *Load) Release() {
	if l != nil && l.more.Add(-1) < 0 {
		l.give(closed)
	}
}

func (l *Load) give(next int64) {
	for {
		held := l.held.Load()
		if held < 0 {
			return
		}
		if l.held.CompareAndSwap(held, next) {
			if held > 0 {
				l.of.give(held)
			}
			return
		}
	}
}
