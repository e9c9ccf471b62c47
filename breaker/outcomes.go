package breaker

import "time"

// buckets is into how many parts the window is divided. A failure counts for
// nine to ten tenths of the window.
const buckets = 10

// outcomes are those of the calls of a window that rolls.
type outcomes struct {
	start  time.Time
	period time.Duration // of a bucket
	// last is the number of the bucket that was written last, counted from the start.
	last  int64
	parts [buckets]struct{ successes, failures uint64 }
	// run is how many failures came since the last success.
	run uint64
}

func newOutcomes(window time.Duration) outcomes {
	return outcomes{start: time.Now(), period: max(window/buckets, 1)}
}

// clear forgets all of them.
func (c *outcomes) clear() { *c = outcomes{start: c.start, period: c.period, last: c.last} }

// add counts one; what says nothing is not counted.
func (c *outcomes) add(o Outcome, now time.Time) {
	for present := int64(now.Sub(c.start) / c.period); c.last < present; {
		c.last = max(c.last+1, present-buckets+1)
		c.parts[c.last%buckets] = struct{ successes, failures uint64 }{}
	}
	switch part := &c.parts[c.last%buckets]; o {
	case Success:
		part.successes++
		c.run = 0
	case Failure:
		part.failures++
		c.run++
	case Ignored:
	}
}

// trip is the rule of the package comment.
func (c *outcomes) trip(least uint32) bool {
	var failures, all uint64
	for _, part := range c.parts {
		failures += part.failures
		all += part.failures + part.successes
	}
	return failures >= uint64(least) && (2*failures >= all || c.run >= uint64(least) && 100*c.run >= all)
}
