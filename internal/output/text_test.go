package output

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestHowTextIsCut(t *testing.T) {
	hundred := strings.Repeat("0123456789", 10)
	for name, c := range map[string]struct {
		strategy         string
		room             int
		as               string
		head, gap, tail  string
		shown, nextStart int
	}{
		"head":                   {Head, 15, Head, "012345678901234", "", "", 15, 15},
		"tail":                   {Tail, 15, Tail, "", "", "567890123456789", 15, 0},
		"head and tail":          {HeadTail, 90, HeadTail, hundred[:27], "\n[… 46 characters left out here …]\n", hundred[73:], 54, 27},
		"no room for both":       {HeadTail, 60, Head, hundred[:60], "", "", 60, 60},
		"nothing":                {Head, 0, Head, "", "", "", 0, 0},
		"it fits, head":          {Head, 500, Head, hundred, "", "", 100, 100},
		"it fits, tail":          {Tail, 500, Tail, "", "", hundred, 100, 0},
		"it fits, head and tail": {HeadTail, 500, HeadTail, hundred, "", "", 100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := cutText([]byte(hundred), 100, c.room, c.strategy)
			if got.strategy != c.as || string(got.head) != c.head || got.gap != c.gap || string(got.tail) != c.tail ||
				got.shown != c.shown || got.next != c.nextStart {
				t.Errorf("got %+v\nhead %q, tail %q", got, got.head, got.tail)
			}
			if n := chars(string(got.head) + got.gap + string(got.tail)); n > c.room {
				t.Errorf("%d characters in a room of %d", n, c.room)
			}
		})
	}
}

func TestCutsFallBetweenGraphemes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		b := randomText(r, 150)
		total, want := countChars(b), boundaries(b)
		for _, strategy := range strategies[2:] {
			for room := range total {
				c := cutText(b, total, room, strategy)
				if !want[len(c.head)] || !want[len(b)-len(c.tail)] {
					t.Fatalf("%s, %d characters of %q: head %q, tail %q", strategy, room, b, c.head, c.tail)
				}
				if n := countChars(c.head) + chars(c.gap) + countChars(c.tail); n > room {
					t.Fatalf("%s: %d characters in a room of %d", strategy, n, room)
				}
			}
		}
	}
}
