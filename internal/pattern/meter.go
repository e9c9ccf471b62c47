package pattern

import (
	"context"
	"errors"
)

// ErrTooCostly says that the steps of a meter are used up.
var ErrTooCostly = errors.New("it takes more steps than it may")

// Meter is what one piece of work may spend: the check of one call's arguments,
// one search, one evaluation. A step is one instruction looked at for one
// character, some 10 to 20 ns. It stops when the steps are used up or its
// context ends, and stays so. A Meter serves one goroutine.
type Meter struct {
	ctx   context.Context //nolint:containedctx // a meter lives for one piece of work
	left  int64
	until int64 // how much is left at the next look at ctx
	whole int64 // at the beginning
	err   error
}

// glance is how many steps are taken between two looks at the context: below
// a millisecond.
const glance = 1 << 15

// NewMeter returns a meter of so many steps.
func NewMeter(ctx context.Context, steps int64) *Meter {
	m := &Meter{}
	m.Reset(ctx, steps)
	return m
}

// Reset begins anew.
func (m *Meter) Reset(ctx context.Context, steps int64) {
	*m = Meter{ctx: ctx, left: steps, until: max(steps-glance, 0), whole: steps}
}

// Spend takes steps, and reports whether the work may go on.
func (m *Meter) Spend(steps int64) bool {
	m.left -= max(steps, 0)
	if m.left > m.until && m.err == nil {
		return true
	}
	return m.look()
}

// look looks up from the work.
func (m *Meter) look() bool {
	m.until = max(m.left-glance, 0)
	switch {
	case m.err != nil:
	case m.left < 0:
		m.err = ErrTooCostly
	default:
		m.err = context.Cause(m.ctx)
	}
	return m.err == nil
}

// Err says why the meter has stopped: ErrTooCostly, or the cause of the end of
// its context; nil while it runs.
func (m *Meter) Err() error { return m.err }

// Spent is how many steps were taken.
func (m *Meter) Spent() int64 { return m.whole - m.left }
