package tool

import (
	"strconv"
	"time"
	"unicode/utf8"
)

const ellipsis = "…"

// Shorten cuts text to at most limit characters (code points), the last one
// then being an ellipsis. limit is at least 1.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	chars, cut := 0, 0
	for i := range text { // no further than one beyond the limit: text may be a whole reply
		switch chars++; {
		case chars == limit:
			cut = i
		case chars > limit:
			return text[:cut] + ellipsis
		}
	}
	return text
}

// ShortenBytes cuts text to at most limit bytes, between characters, and ends
// it in an ellipsis then: for what is bounded because it is kept. limit is at
// least 3, which an ellipsis takes.
func ShortenBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// QuotedChars is how much of a text Quote shows, in characters.
const QuotedChars = 200

// Quote shows a text as Go and JSON do, shortened to QuotedChars.
func Quote(text string) string { return strconv.Quote(Shorten(text, QuotedChars)) }

// RoundTime is a duration as a hint tells it: to the second, to a tenth of one below
// ten of them, and to the millisecond below one. What ended before it began, as of two clocks, took none.
func RoundTime(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return max(0, d.Round(time.Millisecond))
	}
}
