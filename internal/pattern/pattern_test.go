package pattern

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

// What one argument of 55 bytes, or one pattern of a discovered tool, did: it
// stands for 20,000 to the power of six instructions.
const nested = `((((((a){20000}){20000}){20000}){20000}){20000}){20000}`

// Each of these took the process's memory, or a core for seconds, before it was
// even matched.
func TestWhatWouldNotFitIsRefusedBeforeItIsCompiled(t *testing.T) {
	for name, source := range map[string]string{
		"nested repetitions":        nested,
		"nested open repetitions":   strings.ReplaceAll(nested, "}", ",}"),
		"repetitions side by side":  strings.Repeat("a{1000}", 2300),
		"long group, repeated":      "(" + strings.Repeat("abcd", 500) + "){0,20000}",
		"large look-aheads":         "^" + strings.Repeat("(?=a{1000})", 200) + "a",
		"one class of many tables":  "[" + strings.Repeat(`\pL`, 5400) + "]",
		"many tables":               strings.Repeat(`\pL`, 5400),
		"many folded ranges":        "(?i)" + strings.Repeat("[!-\U0001E940]", 1800),
		"folded ranges, one class":  "(?i)[" + strings.Repeat("!-\U0001E940", 2500) + "]",
		"folded, flags later":       "(?s)a(?m-s:b)(?si:" + strings.Repeat("[!-\U0001E940]", 1000) + ")",
		"folded ranges of escapes":  "(?i)[" + strings.Repeat(`!-\x{1E940}`, 1000) + "]",
		"folded, ECMA's escapes":    "(?i)[" + strings.Repeat(`!-\u{1E940}`, 1000) + "]",
		"longer than any that does": strings.Repeat("a", MaxLength+1),
	} {
		if _, err := ECMA(source); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}

func TestTheSizeIsAnUpperBoundOfWhatIsCompiled(t *testing.T) {
	for _, source := range []string{
		``, `a`, `abc`, `[a-z]`, `a*`, `a+`, `a?`, `(a)`, `(?:a*)*`, `a|b|cd`, `a{3}`, `a{3,}`, `a{0,}`, `a{3,7}`, `(ab?c*){2,20}`, `(a|b|){3}`, `^(?:(?:x{10}){10}){10}$`,
		`^.{1,1000}$`, `(?i)straße`, `\bfoo\b`, `(?:)`, `(?:){5}`, `x{0}`, `[^\x00-\x{10FFFF}]`, `(a*|b+){3,}`, `foo|foobar|food`,
	} {
		p, err := Compile(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if made := len(p.body.machine().prog.Inst); made > p.Size() || p.Size() > 4*made+8 {
			t.Errorf("%s: counted %d, made %d", source, p.Size(), made)
		}
	}
}

func TestAMeterStopsAMatch(t *testing.T) {
	p, err := ECMA(`^(?:(?:a{1,10}){1,10}){1,10}b$`)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMeter(t.Context(), 1_000_000)
	if p.Match(m, strings.Repeat("a", 1<<20)) || !errors.Is(m.Err(), ErrTooCostly) {
		t.Errorf("the meter says %v", m.Err())
	}
	if spent := m.Spent(); spent > 1_100_000 {
		t.Errorf("%d steps of a million", spent)
	}
	if p.Match(m, "ab") || p.Find(m, "ab") >= 0 {
		t.Error("matched after the meter has stopped")
	}
}

func TestAMatchEndsWithItsCaller(t *testing.T) {
	p, err := ECMA(`(?:a?){1000}b`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has left")
	cancel(gone)
	m := NewMeter(ctx, 1<<40)
	if p.Match(m, strings.Repeat("a", 1<<20)) || !errors.Is(m.Err(), gone) {
		t.Errorf("the meter says %v", m.Err())
	}
	if spent := m.Spent(); spent > 10*glance {
		t.Errorf("%d steps after the caller has left", spent)
	}
}

// Many small matches end like one large one.
func TestAMeterCountsAllMatches(t *testing.T) {
	p, err := ECMA(`^(?:[a-z]{1,30}-?){1,20}$`)
	if err != nil {
		t.Fatal(err)
	}
	m, matches := NewMeter(t.Context(), 1_000_000), 0
	for m.Err() == nil && matches < 100_000 {
		p.Match(m, "some-name-of-a-thing")
		matches++
	}
	if !errors.Is(m.Err(), ErrTooCostly) {
		t.Errorf("%d matches, the meter says %v", matches, m.Err())
	}
}

// agree holds both ways to match against each other.
func agree(t *testing.T, source, text string) {
	t.Helper()
	p, err := Compile(source)
	if err != nil {
		return
	}
	want := -1
	if loc := regexp.MustCompile(source).FindStringIndex(text); loc != nil {
		want = loc[0]
	}
	m := NewMeter(t.Context(), 50_000_000)
	if got := p.Find(m, text); got != want && m.Err() == nil {
		t.Errorf("%q in %q begins at %d, not at %d", source, text, want, got)
	}
	if got := p.Match(m, text); got != (want >= 0) && m.Err() == nil {
		t.Errorf("%q matches %q: %v, not %v", source, text, want >= 0, got)
	}
}

var pairs = [][2]string{
	{``, ``}, {`a`, `bca`}, {`a|ab`, `xab`}, {`(a+)(b+)`, `caabbb`}, {`^a`, `ba`}, {`^a`, "b\na"}, {`(?m)^a`, "b\na"}, {`(?m)a$`, "ba\nb"}, {`a$`, "ba\n"},
	{`\bfoo\b`, `a foo b`}, {`\Bfoo`, `xfoo`}, {`foo`, `a foo`}, {`fo+`, `f fo`}, {`b|a.*c`, `abc`}, {`a.*c|b`, `xabx`}, {`(?:a?){5}a{5}`, `aaaaa`}, {`é.`, `caféx`}, {`[^a]`, "\xff"}, {`.`, "\xff\xfe"},
	{`\xff`, "\xff"}, {`(?i)STRASSE|straße`, `Straße`}, {`(?i)k`, "\u212a"}, {`x*`, `aaa`}, {`x*$`, `aaax`}, {`$`, `abc`}, {`(|a)*b`, `aab`}, {`(a|b)*?c`, `ababc`}, {`(?s).b`, "\nb"}, {`.b`, "\nb"}, {`\z`, ``},
	{`abc|bcd`, `xbcdabc`}, {`(a*)*b`, `aaab`}, {`[a-c]{2,3}d`, `xabcd`}, {`(?:xy)+z`, `xyxyxz xyz`}, {`\A\z`, ``}, {`a\b`, `ba b`},
}

func TestTheMachineAgreesWithGo(t *testing.T) {
	for _, p := range pairs {
		agree(t, p[0], p[1])
	}
}

func FuzzTheMachineAgreesWithGo(f *testing.F) {
	for _, p := range pairs {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(source) > 200 || len(text) > 2000 {
			return
		}
		agree(t, source, text)
	})
}

// A look costs what it looks at, and a meter that has stopped lets nothing begin.
func TestAStoppedMeterCostsNothing(t *testing.T) {
	p, err := Compile(`(?:(?:a{1,10}){1,10}){1,10}b`)
	if err != nil {
		t.Fatal(err)
	}
	m, text := NewMeter(t.Context(), 1000), strings.Repeat("a", 1000)
	p.Find(m, text)
	before := m.Spent()
	for range 1000 {
		p.Match(m, text)
	}
	if spent := m.Spent() - before; spent > 2000 {
		t.Errorf("%d steps after the meter has stopped", spent)
	}
}
