package backend_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	tests := []struct {
		name  string
		value string
		want  time.Duration
		ok    bool
	}{
		{"seconds", "120", 2 * time.Minute, true},
		{"zero", "0", 0, true},
		{"leading zeros", "007", 7 * time.Second, true},
		{"white space", " \t30 ", 30 * time.Second, true},
		{"a fraction", "1.5", 1500 * time.Millisecond, true},
		{"a small fraction", "0.7", 700 * time.Millisecond, true},
		{"a fraction without digits", "3.", 3 * time.Second, true},
		{"negative is now", "-5", 0, true},
		{"a day", "86400", backend.MaxRetryAfter, true},
		{"more than a day", "86401", backend.MaxRetryAfter, true},
		{"more than an int64 of seconds", "99999999999999999999", backend.MaxRetryAfter, true},
		{"more than a float64", strings.Repeat("9", 400), backend.MaxRetryAfter, true},

		{"IMF-fixdate", "Sat, 21 Nov 2026 12:00:30 GMT", 30 * time.Second, true},
		{"RFC 850", "Saturday, 21-Nov-26 12:01:00 GMT", time.Minute, true},
		{"asctime", "Sat Nov 21 13:00:00 2026", time.Hour, true},
		{"asctime with a short day", "Tue Dec  1 12:00:00 2026", backend.MaxRetryAfter, true},
		{"a date that has passed", "Sat, 21 Nov 2026 11:59:59 GMT", 0, true},
		{"this very moment", "Sat, 21 Nov 2026 12:00:00 GMT", 0, true},
		{"a date long ago", "Thu, 01 Jan 1970 00:00:00 GMT", 0, true},
		{"a date far away", "Fri, 31 Dec 9999 23:59:59 GMT", backend.MaxRetryAfter, true},

		{"nothing", "", 0, false},
		{"blank", "   ", 0, false},
		{"a word", "soon", 0, false},
		{"a unit", "30s", 0, false},
		{"a plus sign", "+30", 0, false},
		{"two signs", "--30", 0, false},
		{"only a sign", "-", 0, false},
		{"only a point", ".", 0, false},
		{"no leading digit", ".5", 0, false},
		{"two points", "1.2.3", 0, false},
		{"an exponent", "1e3", 0, false},
		{"hexadecimal", "0x10", 0, false},
		{"an underscore", "1_000", 0, false},
		{"infinity", "Inf", 0, false},
		{"not a number", "NaN", 0, false},
		{"two values", "30, 60", 0, false},
		{"other digits", "３０", 0, false},
		{"a date with an offset", "Sat, 21 Nov 2026 12:00:30 +0000", 0, false},
		{"RFC 3339", "2026-11-21T12:00:30Z", 0, false},
		{"a date that does not exist", "Sat, 31 Nov 2026 12:00:30 GMT", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := backend.ParseRetryAfter(test.value, noon)
			if got != test.want || ok != test.ok {
				t.Errorf("ParseRetryAfter(%q) = %v, %v, want %v, %v", test.value, got, ok, test.want, test.ok)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "120", "-5", "1.5", "1e9", "99999999999999999999", "Sat, 21 Nov 2026 12:00:30 GMT",
		"Saturday, 21-Nov-26 12:01:00 GMT", "Sat Nov 21 13:00:00 2026", "soon", "\x00", "1.\u0661",
	} {
		f.Add(seed, noon.Unix())
		f.Add(seed, int64(math.MinInt64))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		wait, ok := backend.ParseRetryAfter(value, time.Unix(unix, 0))
		if wait < 0 || wait > backend.MaxRetryAfter {
			t.Errorf("ParseRetryAfter(%q) = %v, out of bounds", value, wait)
		}
		if !ok && wait != 0 {
			t.Errorf("ParseRetryAfter(%q) = %v for a value that says nothing", value, wait)
		}
		padded, okPadded := backend.ParseRetryAfter(" "+value+"\t", time.Unix(unix, 0))
		header := http.Header{"Retry-After": {value}, "Date": {value}}
		if got := backend.RetryAfter(header, time.Unix(unix, 0)); got < 0 || got > backend.MaxRetryAfter {
			t.Errorf("Retry-After and Date %q: %v, out of bounds", value, got)
		}
		if padded != wait || okPadded != ok {
			t.Errorf("white space around %q changed %v, %v to %v, %v", value, wait, ok, padded, okPadded)
		}
	})
}

func TestRetryAfterOfAResponse(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		retryAfter, date string
		want             time.Duration
	}{
		"seconds":                      {"120", "", 2 * time.Minute},
		"a fraction":                   {"0.5", "", 500 * time.Millisecond},
		"zero":                         {"0", "", 0},
		"negative":                     {"-5", "", 0},
		"absurd":                       {strings.Repeat("9", 300), "", 24 * time.Hour},
		"not a number":                 {"NaN", "", 0},
		"a date":                       {date(time.Minute), "", time.Minute},
		"a date by the upstream clock": {date(time.Minute), date(50 * time.Second), 10 * time.Second},
		"a date in the past":           {date(-time.Minute), "", 0},
		"a date far away":              {date(1000 * time.Hour), "", 24 * time.Hour},
		"nonsense":                     {"soon", "", 0},
		"nothing":                      {"", "", 0},
	} {
		header := http.Header{"Retry-After": {c.retryAfter}, "Date": {c.date}}
		if got := backend.RetryAfter(header, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func ExampleParseRetryAfter() {
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	for _, value := range []string{"120", "Sat, 21 Nov 2026 12:00:30 GMT", "soon"} {
		fmt.Println(backend.ParseRetryAfter(value, now))
	}
	// Output:
	// 2m0s true
	// 30s true
	// 0s false
}
