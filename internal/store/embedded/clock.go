package embedded

import "time"

// clock is the store's clock. Within a process it follows the monotonic clock,
// so that setting the wall clock moves no lease; across restarts it starts at
// the wall clock, but never before the last instant that the store has
// recorded. Its unit is the millisecond.
type clock struct {
	base   time.Time // without monotonic reading
	anchor time.Time // with it
}

// newClock starts a clock that is never before highWater.
func newClock(highWater time.Time) clock {
	now := time.Now()
	base := now.Round(0)
	if base.Before(highWater) {
		base = highWater
	}
	return clock{base: base, anchor: now}
}

func (c clock) now() time.Time {
	return c.base.Add(time.Since(c.anchor)).Truncate(time.Millisecond).UTC()
}
