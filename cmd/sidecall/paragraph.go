package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// columns is how wide a terminal is at least.
const columns = 80

// shown is a text of somebody else's as a terminal may have it: what is not printable in
// it is escaped, but for the ends of lines.
func shown(text string) string {
	odd := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if strings.IndexFunc(text, odd) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if odd(r) {
			quoted := fmt.Sprintf("%q", r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// paragraph writes a text with a label before its first line, and what it has more than one
// line of below that. A line is broken between words where there are any, and one that is JSON
// not at all, so that it can be copied.
func paragraph(out io.Writer, label, text string) {
	indent := utf8.RuneCountInString(label)
	margin := strings.Repeat(" ", indent)
	for line := range strings.SplitSeq(strings.TrimRight(shown(text), "\n"), "\n") {
		width := columns - indent
		if strings.HasPrefix(line, "{") || strings.HasPrefix(line, "[") {
			width = len(line)
		}
		for {
			var part string
			part, line = broken(line, width)
			fmt.Fprintln(out, strings.TrimRight(label+part, " "))
			label = margin
			if line == "" {
				break
			}
		}
	}
}

// broken is as much of a line as is no wider than that, and the rest.
func broken(line string, width int) (part, rest string) {
	chars, space := 0, 0
	for i, r := range line {
		if chars == width {
			if space > 0 {
				return line[:space], strings.TrimLeft(line[space:], " ")
			}
			return line[:i], line[i:]
		}
		if chars++; r == ' ' {
			space = i
		}
	}
	return line, ""
}
