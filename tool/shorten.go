package tool

import (
	"strconv"
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
