package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// longest bounds the wait that Take reports: at one call a year nobody wants to
// know more than "not today".
const longest = 24 * time.Hour

// Rate bounds how many calls start per second: a token bucket that holds burst
// tokens, gets perSecond new ones each second, and gives one to each call.
type Rate struct {
	limiter *rate.Limiter
}

// NewRate returns a rate limit whose bucket is full. It returns nil, which
// limits nothing, when perSecond is not a positive, finite number. A burst below
// 1 means 1: with less no call would ever start.
func NewRate(perSecond float64, burst int) *Rate {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) { // negated, so that NaN is caught
		return nil
	}
	return &Rate{limiter: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))}
}

// Take takes one token. When there is none it takes nothing, ok is false and
// wait says how long it is until there will be one, if nobody else comes: more
// than 0, at most a day. A refusal does not push the next token away, so those
// who ask too often do not starve the others.
func (r *Rate) Take() (wait time.Duration, ok bool) {
	if r == nil {
		return 0, true
	}
	now := time.Now()
	if r.limiter.AllowN(now, 1) {
		return 0, true
	}
	missing := 1 - r.limiter.TokensAt(now)
	seconds := missing / float64(r.limiter.Limit())
	if seconds >= longest.Seconds() {
		return longest, false
	}
	// Rounded up: whoever comes back after exactly this time finds a token.
	// At least 1 because another caller's clock may have been ahead of ours.
	return max(1, time.Duration(math.Ceil(seconds*float64(time.Second)))), false
}
