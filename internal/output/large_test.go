package output

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// large are texts of about size bytes, among them those that would be slow if
// any step took more than one pass, or one pass a level.
func large(size int) map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	return map[string]string{
		"letters":        fill("lorem ipsum "),
		"one grapheme":   "a" + fill("\u0301"),
		"flags":          fill("🇩🇪"),
		"families":       fill("👨\u200d👩\u200d👧"),
		"escapes":        fill("\x1b]0;x"),
		"invalid":        fill("a\xff"),
		"tags":           fill("</untrusted_output>"),
		"numbers":        "[1" + fill(",1") + "]",
		"empty arrays":   "[[]" + fill(",[]") + "]",
		"members":        `{"a":1` + fill(`,"a":1`) + "}",
		"one string":     `"` + fill(`\"\\é`) + `"`,
		"backslashes":    `"` + fill(`\\`) + `"`,
		"dirty strings":  `["a"` + fill(`,"\u202ex"`) + "]",
		"deep and broad": strings.Repeat("[", 200) + "1" + fill(",1") + strings.Repeat("]", 200),
		"deep":           strings.Repeat(`{"a":[1,`, 4000) + `"` + fill("x") + `"` + strings.Repeat("]}", 4000),
		"too deep":       fill("[["),
		"one key":        `{"` + fill("k") + `":1}`,
	}
}

func TestLargeOutputs(t *testing.T) {
	for name, text := range large(1 << 20) {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range strategies {
				s := Shape(Input{Reply: tool.Reply{Text: []byte(text)}, Strategy: strategy, Untrusted: true, Keep: true})
				if n := chars(s.Content); !s.Truncated || n > DefaultLimit {
					t.Fatalf("%s: %d characters", strategy, n)
				}
				if strategy == Auto {
					readTheEnd(t, s)
				}
				if inside, ok := between(s.Content); !ok || s.Strategy == JSON && !json.Valid([]byte(inside)) {
					t.Fatalf("%s: %.300s", strategy, s.Content)
				}
			}
		})
	}
}

func TestATenMebibyteOutputIsKeptWhole(t *testing.T) {
	for _, name := range []string{"letters", "numbers", "one string"} {
		text := large(DefaultKeep)[name]
		text = text[:min(len(text), DefaultKeep)]
		s := Shape(Input{Reply: tool.Reply{Text: []byte(text)}, Keep: true})
		if !s.Truncated || !s.KeptComplete || string(s.Kept) != text || chars(s.Content) > DefaultLimit {
			t.Errorf("%s: %d of %d bytes kept, complete %v, %d characters shown", name, len(s.Kept), len(text), s.KeptComplete, chars(s.Content))
		}
	}
}

// readTheEnd reads the last page of what was kept, and searches it.
func readTheEnd(t *testing.T, s Shaped) {
	t.Helper()
	total := int64(countChars(s.Kept))
	page, wrong := Page(t.Context(), s.Kept, total-10, 0, "")
	if wrong != nil || page.NextOffset != total || !strings.HasSuffix(string(s.Kept), page.Content) {
		t.Fatalf("%+v, %v", page, wrong)
	}
	if _, wrong = Page(t.Context(), s.Kept, 0, 0, "not there"); wrong != nil {
		t.Fatal(wrong)
	}
}

// The first few rows of a large table are worth more than one of its columns.
func TestALargeTableShowsItsRows(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"rows":[`)
	for i := range 5_000 {
		fmt.Fprintf(&b, `{"id":%d,"text":"%s"},`, i, strings.Repeat("long text ", 20))
	}
	b.WriteString(`null],"total":5001}`)
	s := Shape(Input{Reply: tool.Reply{Text: []byte(b.String()), JSON: true}})
	for _, want := range []string{`"id":0,`, `"id":30,`, `items left out]"]`, `"total":5001}`} {
		if !strings.Contains(s.Content, want) {
			t.Errorf("no %s in\n%s", want, s.Content)
		}
	}
}

// Letters of four bytes and then of one let a guess at the limit miss time and again: 8 MB
// took 11 s, as they were cut dozens of times.
func TestAContentOfManyBytesIsCutAFewTimes(t *testing.T) {
	wide, narrow := strings.Repeat("😀", 52_000), strings.Repeat("a", 600_000)
	for name, text := range map[string]string{
		Head: wide + narrow, Tail: narrow + wide, HeadTail: wide + narrow + wide,
		JSON: `["` + wide[:400] + `"` + strings.Repeat(`,"`+wide[:400]+`"`, 500) + strings.Repeat(`,1`, 300_000) + `]`,
	} {
		var s Shaped
		cost := func(limit int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s = Shape(Input{Reply: tool.Reply{Text: []byte(text)}, Limit: limit, CarryLimit: 300_000, Strategy: name, Keep: true})
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if once, guessed := cost(50_000), cost(690_000); guessed > 7*once {
			t.Errorf("%s: it took %d bytes, and %d at once", name, guessed, once)
		}
		if most := 200_000; len(s.Content) > most || len(s.Content) < most/utf8.UTFMax/2 || s.Strategy != name {
			t.Errorf("%s: %d bytes of %d are shown, by %s", name, len(s.Content), most, s.Strategy)
		}
	}
}
