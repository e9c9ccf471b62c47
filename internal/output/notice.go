package output

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// notice says that a result was cut. It is written for a model: what happened,
// how much it sees, what to call.
type notice struct {
	shown, total int
	atLeast      bool   // there was more than total: reading stopped
	ref          string // empty: nothing is kept
	keptChars    int    // of what is kept
	next         int    // character at which reading on makes sense
}

// The levels of a notice, from complete to a mere sign.
const (
	full = iota
	brief
	counts
	word
	sign
	levels
)

// leastBody is the room that must be left to the result, in characters, for a
// notice of a level to be worth its own.
var leastBody = [levels]int{full: 64, brief: 48, counts: 16, word: 1, sign: 0}

// text writes the notice.
func (n notice) text(level int) string {
	switch level {
	case full:
		return n.full()
	case brief:
		b := n.appendCounts([]byte("[Succeeded, cut: "))
		if n.ref != "" {
			b = append(b, `. read_output: output_ref "`+n.ref+`", offset `...)
			b = strconv.AppendInt(b, int64(n.next), 10)
		}
		return string(append(b, ']'))
	case counts:
		return string(append(n.appendCounts([]byte("[Succeeded, cut: ")), ']'))
	case word:
		return "[cut]"
	default:
		return "…"
	}
}

func (n notice) full() string {
	b := n.appendCounts([]byte("[The call succeeded. Its output is cut: "))
	b = append(b, " characters are shown"...)
	if n.atLeast {
		b = append(b, " (reading stopped at the size limit)"...)
	}
	if n.ref == "" {
		return string(append(b, ". The rest is not kept and cannot be read.]"...))
	}
	if n.keptChars < n.total {
		b = append(b, "; the first "...)
		b = strconv.AppendInt(b, int64(n.keptChars), 10)
		b = append(b, " are kept"...)
	}
	b = append(b, `. To read the rest, call read_output with output_ref "`+n.ref+`" and offset `...)
	b = strconv.AppendInt(b, int64(n.next), 10)
	return string(append(b, ".]"...))
}

func (n notice) appendCounts(b []byte) []byte {
	b = strconv.AppendInt(b, int64(n.shown), 10)
	b = append(b, " of "...)
	if n.atLeast {
		b = append(b, "at least "...)
	}
	return strconv.AppendInt(b, int64(n.total), 10)
}

// widest is how many characters the notice takes at most, whatever will be shown.
func (n notice) widest(level int) int {
	n.shown, n.next = n.total, n.total
	return utf8.RuneCountInString(n.text(level))
}

// LeftOut stands in the place of a content that its response has no room for.
func LeftOut(chars int64, ref string) string {
	const how = "[The call succeeded. Its output of %d characters does not fit into one response with those of the other calls. "
	if ref == "" {
		return fmt.Sprintf(how+"It is not kept and cannot be read.]", chars)
	}
	return fmt.Sprintf(how+`To read it, call read_output with output_ref "%s" and offset 0.]`, chars, ref)
}
