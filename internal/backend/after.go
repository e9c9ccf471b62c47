package backend

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that an upstream may ask for; absurd wishes
// are cut to it.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter is how long from now the header of a response asks to wait; 0 when
// it does not, or not in a way that can be read. A date is compared with the
// upstream's own clock where it sends it.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	wait, _ := ParseRetryAfter(header.Get("Retry-After"), now)
	return wait
}

// ParseRetryAfter reads the value of a Retry-After header: how long from now
// the upstream asks to wait. It knows both forms of RFC 9110 section 10.2.3:
//
//   - a number of seconds. A fraction is understood as well, since some APIs
//     send one and what they mean is plain;
//   - an HTTP date, in each of the three formats that a recipient must accept.
//     It is compared with now: pass the time of the response's Date header to
//     be safe from clocks that differ.
//
// A time that has passed, or a negative number, is 0. A wait beyond MaxRetryAfter is
// cut to it. false means that the value says nothing, and the caller should do
// as if there were none.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if wait, ok := parseSeconds(value); ok {
		return wait, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// Sub saturates, so that no date overflows.
	return min(max(date.Sub(now), 0), MaxRetryAfter), true
}

// parseSeconds reads a decimal number: digits, maybe a fraction, maybe a minus
// sign, and none of the other notations that strconv knows.
func parseSeconds(value string) (time.Duration, bool) {
	digits, negative := strings.CutPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789.") != "" || digits[0] == '.' {
		return 0, false
	}
	// An error without a result is a second dot. A number too large comes
	// with an error too, and is +Inf.
	seconds, err := strconv.ParseFloat(digits, 64)
	if err != nil && seconds == 0 {
		return 0, false
	}
	switch {
	case negative:
		return 0, true
	case seconds >= MaxRetryAfter.Seconds():
		return MaxRetryAfter, true
	default:
		return time.Duration(math.Round(seconds * float64(time.Second))), true
	}
}
