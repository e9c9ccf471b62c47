package harness

import (
	"regexp"
	"strings"
)

// firstWords and lastWords bound, in bytes, what is kept of a long text: the
// first lines of a crash say what it was, and its last ones how it ended; between
// them may be the traces of many goroutines.
const (
	firstWords = 12 << 10
	lastWords  = 4 << 10
)

// crash is the line with which the Go runtime, or the race detector, begins its
// report. It may be the first line that a process writes.
var crash = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|fatal error: |panic: |SIG[A-Z]+: )`)

// words is what a failed test says of a log: its beginning and its end, and the
// beginning and the end of the report of a crash in it.
func words(log string) string {
	at := crash.FindStringIndex(log)
	if at == nil {
		return ends(log)
	}
	return ends(log[:at[0]]) + ends(log[at[0]:])
}

// ends is a text without its middle, if it is long. What is left are whole lines,
// but for those that are longer than what may be kept.
func ends(text string) string {
	if len(text) <= firstWords+lastWords {
		return text
	}
	first, last := text[:firstWords], text[len(text)-lastWords:]
	if at := strings.LastIndexByte(first, '\n'); at >= 0 {
		first = first[:at+1]
	}
	if at := strings.IndexByte(last, '\n'); at >= 0 {
		last = last[at+1:]
	}
	return first + "…\n" + last
}
