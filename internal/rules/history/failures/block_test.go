package failures

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// The less room there is, the less is told: the oldest attempts go first, and how
// many is said; the error stays to the last.
func TestTheOldestAttemptsGoFirst(t *testing.T) {
	c := converse(t, Options{})
	for i := range 6 {
		c.fails("edit_file", fmt.Sprintf(`{"path":"a.ts","line":%d}`, i), tool.CodeNotFound, "no such file or directory")
	}
	c.fails("read_file", `{"path":"a.ts"}`, tool.CodeNotFound, "no such file or directory")
	f := &Failure{
		Operation: "edit_file", Target: "a.ts", Code: tool.CodeNotFound, Error: "no such file or directory: a.ts", At: c.now,
		Arguments: decoded(t, `{"path":"a.ts","line":9}`), Next: Next{Corrected: `{"line":9,"path":"b.ts"}`},
		Logs: Logs{Earlier: c.logs[LogOf("edit_file", "a.ts")], Recent: c.logs[RecentLog]},
	}
	told := []string{"  1. ", "  6. ", "Also failed", "Corrected arguments"}
	before := len(told) + 1
	for most := 1200; most >= leastBlock; most -= 10 {
		f.CharsLeft = most * leftShare
		said := c.advisor.Explain(f).Context
		if n := utf8.RuneCountInString(said); n > most || !strings.Contains(said, "no such file or directory: a.ts") {
			t.Fatalf("%d characters of %d: %s", n, most, said)
		}
		left := 0
		for _, part := range told {
			if strings.Contains(said, part) {
				left++
			}
		}
		if left > before {
			t.Errorf("%d characters: more is told than with more room: %s", most, said)
		}
		if first := strings.Contains(said, "  1. "); !first && strings.Contains(said, "\n  6. ") && !strings.Contains(said, "left out") {
			t.Errorf("nobody says that attempts were left out: %s", said)
		} else if first && !strings.Contains(said, "  6. ") {
			t.Errorf("a later attempt went before the first: %s", said)
		}
		before = left
	}
	if before > 0 {
		t.Errorf("with the least room there are still %d parts", before)
	}
}

// The numbers go on where the log was trimmed.
func TestAttemptsAreCountedBeyondTheLog(t *testing.T) {
	c := converse(t, Options{})
	var said string
	for i := range KeptAttempts + 5 {
		said = c.fails("get_order", fmt.Sprintf(`{"order_id":"A-9","n":%d}`, i), tool.CodeConflict, fmt.Sprint("busy ", i))
	}
	if want := fmt.Sprintf("in this conversation: %d (the oldest 4 left out)\n  5. ", KeptAttempts+4); !strings.Contains(said, want) {
		t.Errorf("want %s in %s", want, said)
	}
}

func TestHowLongAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 999 * time.Millisecond: "just now", time.Second: "1s ago", 59 * time.Second: "59s ago",
		time.Minute: "1m ago", time.Hour: "1h ago", 47 * time.Hour: "47h ago", 1000 * time.Hour: "days ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// Corrected arguments are shown whole or not at all.
func TestCorrectedArgumentsAreShownWhole(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		corrected string
		want      bool
	}{
		"short":                     {`{"a":"x"}`, true},
		"long":                      {`{"a":"` + strings.Repeat("x", 700) + `"}`, false},
		"what breaks a line":        {"{\"a\":\"x\u2028y\"}", false},
		"no JSON":                   {`{"a":`, false},
		"no object":                 {`[1]`, false},
		"what has just been sent":   {`{"a":"now"}`, false},
		"what has been sent before": {`{"a":"then"}`, false},
	} {
		f := &Failure{Operation: "x", Code: tool.CodeInvalidArgs, Error: "no", Arguments: map[string]any{"a": "then"}, At: noon}
		f.Earlier = [][]byte{a.Explain(f).Entry}
		f.Arguments, f.Corrected = map[string]any{"a": "now"}, c.corrected
		if said := a.Explain(f).Context; strings.Contains(said, c.corrected) != c.want || strings.Contains(said, "ready to send") != c.want {
			t.Errorf("%s: %s", name, said)
		}
	}
}
