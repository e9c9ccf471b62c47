package embedded

import "time"

// clock is the store's clock. Within a process it follows the monotonic clock,
// so that setting the wall clock moves no lease; across restarts it starts at
// the wall clock, but never before the last instant that the store has
// recorded. Its unit is the millisecond.
type clock struct {
	began time.Time
	ahead time.Duration // of the wall clock
}

// newClock starts a clock that is never before highWater.
func newClock(highWater time.Time) clock {
	now := time.Now()
	return clock{now, max(0, highWater.Sub(now))}
}

func (c clock) now() time.Time {
	return c.began.Add(time.Since(c.began) + c.ahead).Truncate(time.Millisecond).UTC()
}
