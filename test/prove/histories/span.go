package histories

import (
	"math"
	"time"
)

// span is what is known of an instant: between which two, both included, it
// lies, in nanoseconds since 1970. The zero span is no instant at all, the zero time
// of a record.
type span struct{ from, to int64 }

// always is a span of which nothing is known.
var always = span{math.MinInt64 / 4, math.MaxInt64 / 4}

func exactly(at int64) span { return span{at, at} }

func (s span) empty() bool { return s.from > s.to }

func (s span) and(other span) span { return span{max(s.from, other.from), min(s.to, other.to)} }

func (s span) plus(d time.Duration) span { return span{s.from + int64(d), s.to + int64(d)} }

func (s span) widened(d time.Duration) span { return span{s.from - int64(d), s.to + int64(d)} }

// before returns what is known of both when s is before end.
func (s span) before(end span) (span, span) {
	return span{s.from, min(s.to, end.to-1)}, span{max(end.from, s.from+1), end.to}
}

// notBefore returns what is known of both when s is at end or after it.
func (s span) notBefore(end span) (span, span) {
	return span{max(s.from, end.from), s.to}, span{end.from, min(end.to, s.to)}
}
