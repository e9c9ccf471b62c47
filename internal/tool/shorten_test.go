package tool_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 1, ""},
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{"longer", 1, "…"},
		{"日本語", 3, "日本語"}, // nine bytes
		{"日本語だ", 3, "日本…"},
		{"a\xff\xfeb", 4, "a\xff\xfeb"},
		{"a\xff\xfebc", 4, "a\xff\xfe…"},
	} {
		if got := tool.Shorten(c.text, c.limit); got != c.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestShortenBytesCutsBetweenCharacters(t *testing.T) {
	for limit := 3; limit < 12; limit++ {
		got := tool.ShortenBytes(strings.Repeat("\u65e5\u672c\u8a9e", 2), limit)
		if len(got) > limit || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	if got := tool.ShortenBytes("short", 5); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestRoundTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -time.Hour: "0s", 1_499_999 * time.Nanosecond: "1ms", 999_400 * time.Microsecond: "999ms",
		1_260 * time.Millisecond: "1.3s", 9_949 * time.Millisecond: "9.9s", 10_500 * time.Millisecond: "11s", 90 * time.Second: "1m30s",
	} {
		if got := tool.RoundTime(d).String(); got != want {
			t.Errorf("%s is told as %s, want %s", d, got, want)
		}
	}
}

// FuzzShorten: what is cut keeps to the limit, says so, and is the start.
func FuzzShorten(f *testing.F) {
	f.Add("日本語だ", 3)
	f.Add("a\xff\xfebc", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(1, limit%1000)
		got := tool.Shorten(text, limit)
		if utf8.RuneCountInString(text) <= limit {
			if got != text {
				t.Errorf("%q became %q within %d characters", text, got, limit)
			}
			return
		}
		start, cut := strings.CutSuffix(got, "…")
		if utf8.RuneCountInString(got) != limit || !cut || !strings.HasPrefix(text, start) {
			t.Errorf("%q became %q, at most %d characters are allowed", text, got, limit)
		}
	})
}
