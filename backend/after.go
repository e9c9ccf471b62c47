package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter reads the value of a Retry-After header: how long from now
// the upstream asks to wait. It knows both forms of RFC 9110 section 10.2.3:
//
//   - a number of seconds. A fraction is understood as well, since some APIs
//     send one and what they mean is plain;
//   - an HTTP date, in each of the three formats that a recipient must accept.
//     It is compared with now: pass the time of the response's Date header to
//     be safe from clocks that differ.
//
// A time that has passed, or a negative number, is 0. A wait beyond Longest is
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
	return min(max(date.Sub(now), 0), Longest), true
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
	case seconds >= Longest.Seconds():
		return Longest, true
	default:
		return time.Duration(math.Round(seconds * float64(time.Second))), true
	}
}
