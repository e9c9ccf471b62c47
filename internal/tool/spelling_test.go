package tool_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"same", "same", 0},
		{"retry", "retr", 1},
		{"retry", "retrey", 1},
		{"retry", "retny", 1},
		{"retry", "rerty", 1}, // one slip of two neighbouring keys
		{"kitten", "sitting", 3},
		{"ca", "abc", 3}, // no character is touched twice
		{"größe", "grösse", 2},
		{"日本語", "日本", 1},
	} {
		if got := tool.EditDistance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestEditDistanceIsBounded(t *testing.T) {
	long := []rune(strings.Repeat("a", 1_000_000))
	if got := tool.EditDistance(long, []rune("b")); got != tool.MaxSpelling {
		t.Errorf("%d, want %d: only the start is compared", got, tool.MaxSpelling)
	}
	if got := tool.EditDistance(long, long[:tool.MaxSpelling]); got != 0 {
		t.Errorf("%d: only the start is compared", got)
	}
}

// FuzzEditDistance: it is a distance between names of any kind, but for the
// triangle, which swaps of neighbours break.
func FuzzEditDistance(f *testing.F) {
	f.Add("kitten", "sitting")
	f.Add("", "\xff")
	f.Add("ab", "ba")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := []rune(a), []rune(b)
		x, y = x[:min(len(x), tool.MaxSpelling)], y[:min(len(y), tool.MaxSpelling)]
		d := tool.EditDistance(x, y)
		if back := tool.EditDistance(y, x); back != d {
			t.Errorf("%q and %q: %d there and %d back", a, b, d, back)
		}
		if (d == 0) != (string(x) == string(y)) {
			t.Errorf("%q and %q: %d", a, b, d)
		}
		if least, most := max(len(x), len(y))-min(len(x), len(y)), max(len(x), len(y)); d < least || d > most {
			t.Errorf("%q and %q: %d, which is not from %d to %d", a, b, d, least, most)
		}
	})
}

func TestClosest(t *testing.T) {
	have := []string{"max_attempts", "base", "input_schema", "verify_with"}
	for want, expected := range map[string]string{
		"max_attempt": "max_attempts", "maxAttempts": "max_attempts", "MAX-ATTEMPTS": "max_attempts",
		"bsae": "base", "inputSchema": "input_schema", "x": "", "completely": "", strings.Repeat("base", 100): "",
	} {
		if got := tool.Closest(want, have); got != expected {
			t.Errorf("Closest(%q) = %q, want %q", want, got, expected)
		}
	}
	if got := tool.Closest("get", []string{"got", "gut"}); got != "got" {
		t.Errorf("of two that are equally close %q, want the first", got)
	}
}
