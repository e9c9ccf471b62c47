package tool

import (
	"strconv"
	"unicode/utf8"
)

// QuotedChars is how much of a text Quote shows, in characters.
const QuotedChars = 200

// Quote shows a string as JSON does, shortened to QuotedChars.
func Quote(s string) string { return strconv.Quote(Shorten(s, QuotedChars)) }

// Shorten cuts s to at most limit characters, the last one then being an
// ellipsis.
func Shorten(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == limit {
			return s[:i] + "…"
		}
	}
	return s
}
