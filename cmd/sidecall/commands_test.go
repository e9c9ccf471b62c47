package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A command that is shown can be copied: its words are whole, on however many lines it is, and
// what it names has nothing that moves the cursor.
func TestACommandToCopy(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 3) + "it's"
	flags := callFlags("", long, "", "toolu_1\x1b[2J\u202e'\"")
	want := `sidecall resolve --conversation '` + strings.ReplaceAll(long, "'", `'\''`) + `' --id $'toolu_1\x1b[2J\u202e\'"' --as done|not_run --by YOU --reason TEXT`
	if got := strings.Join(settleCommand(flags), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var b strings.Builder
	writeCommand(&b, "    settle ", settleCommand(flags))
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	joined := strings.Join(strings.Split(strings.TrimSpace(b.String()), " \\\n             "), " ")
	if joined != "settle "+want {
		t.Errorf("%s\nis as a shell reads it %s", b.String(), joined)
	}
}
