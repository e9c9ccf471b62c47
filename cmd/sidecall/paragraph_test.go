package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// No line is wider than a terminal, nothing of the text is lost, and what would move its
// cursor is escaped.
func TestATextOnATerminal(t *testing.T) {
	for name, text := range map[string]string{
		"short":        "pay",
		"words":        strings.Repeat("lorem ipsum ", 40),
		"no words":     strings.Repeat("x", 500),
		"lines":        "a\n\nb\n" + strings.Repeat("ü", 200),
		"an early one": "ab " + strings.Repeat("y", 75),
		"a late word":  strings.Repeat("y", 70) + " " + strings.Repeat("z", 70),
	} {
		var b strings.Builder
		paragraph(&b, "  user  ", text)
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%s: a line of %d: %q", name, n, line)
			}
		}
		squeezed := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squeezed(strings.TrimPrefix(b.String(), "  user  ")); got != squeezed(text) {
			t.Errorf("%s: %q", name, b.String())
		}
	}
	// What is to be copied stays in one piece: a word, and a text that is JSON.
	for _, text := range []string{"ab " + strings.Repeat("y", 70), `{"hint":"` + strings.Repeat("lorem ipsum ", 40) + `"}`, `[1,` + strings.Repeat(" 2,", 40) + ` 3]`} {
		var b strings.Builder
		paragraph(&b, "  user  ", "it said:\n"+text+"\nand went")
		last := text[strings.LastIndexByte(text, ' ')+1:]
		if text[0] != 'a' {
			last = text
		}
		if !strings.Contains(b.String(), last) {
			t.Errorf("%q is in pieces:\n%s", text, b.String())
		}
	}
	if got := shown("a\x1b[2J\u202eb\nc\xff"); got != `a\x1b[2J\u202eb`+"\nc\uFFFD" {
		t.Errorf("%q", got)
	}
}
