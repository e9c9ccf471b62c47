package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// Longest bounds every wait, whatever a policy or an upstream asks for. A day
// is beyond any deadline that makes sense for a call, and far from overflow.
const Longest = 24 * time.Hour

// Policy says how often and how late to repeat.
type Policy struct {
	// MaxAttempts counts the first attempt too. Below 1 it means 1: a call is
	// made, and not repeated.
	MaxAttempts int
	// Base is the ceiling of the first wait. 0 or less: repeat without waiting.
	Base time.Duration
	// Multiplier is by how much each ceiling exceeds the one before. Below 1
	// (or not a number) it means 1, since waits that shrink help nobody.
	Multiplier float64
	// Max caps the ceiling. 0 or less: only Longest does.
	Max time.Duration
}

// Ceiling returns the longest wait that may be drawn after attempt n has
// failed: Base after the first, Multiplier times more after each further one,
// at most Max.
func (p Policy) Ceiling(n int) time.Duration {
	if p.Base <= 0 || n < 1 {
		return 0
	}
	limit := Longest
	if p.Max > 0 {
		limit = min(p.Max, Longest)
	}
	multiplier := p.Multiplier
	if !(multiplier > 1) { // negated, so that NaN lands here too
		multiplier = 1
	}
	// In floating point an overflow is +Inf, which the cap catches.
	ceiling := float64(p.Base) * math.Pow(multiplier, float64(n-1))
	if ceiling >= float64(limit) {
		return limit
	}
	return time.Duration(ceiling)
}

// jitter draws uniformly from [0, ceiling].
func jitter(ceiling time.Duration) time.Duration {
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling + 1)
}
