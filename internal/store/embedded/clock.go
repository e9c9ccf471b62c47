package embedded

import "time"

// clock is the store's clock. Within a process it follows the monotonic clock,
// so that setting the wall clock moves no lease; across restarts it starts at
// the wall clock, but never before the last instant that the store has
// recorded. Its unit is the millisecond.
type clock struct {
	began time.Time // as the process has it
	first time.Time // what was that for the store: they may be further apart than a Duration is long
}

// newClock starts a clock that is never before highWater.
func newClock(highWater time.Time) clock {
	now := time.Now()
	if highWater.After(now) {
		return clock{now, highWater}
	}
	return clock{now, now}
}

func (c clock) now() time.Time {
	return c.first.Add(time.Since(c.began)).Truncate(time.Millisecond).UTC()
}
