package pattern

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPatternsMeanWhatECMAMeans(t *testing.T) {
	for _, c := range []struct {
		source, yes, no string
	}{
		{`^[a-z]+$`, "abc", "abC"},
		{`b`, "abc", "ac"},
		{`^\u00e9$`, "é", "e"},
		{`^\u{1F600}$`, "😀", "x"},
		{`^[\u0391-\u03c9]+$`, "αω", "ab"},
		{`^\cJ$`, "\n", "J"},
		{`^[^]$`, "\n", ""},
		{`^a[^]b$`, "a\nb", "ab"},
		{`^\/x\-y\_$`, "/x-y_", "x"},
		{`^(?<year>\d{4})$`, "2026", "26"},
		{`^.{1,4096}$`, strings.Repeat("x", 4096), strings.Repeat("x", 4097)},
		{`^a{2000}$`, strings.Repeat("a", 2000), strings.Repeat("a", 1999)},
		{`^(ab){1500,}$`, strings.Repeat("ab", 1600), strings.Repeat("ab", 1499)},
		{`^a{2,3500}$`, strings.Repeat("a", 3500), strings.Repeat("a", 3501)},
		{`^a{2,3500}$`, strings.Repeat("a", 999), "a"},
		{`^a{0,4000}$`, strings.Repeat("a", 4000), strings.Repeat("a", 4001)},
		{`^(a|bc){0,3500}$`, strings.Repeat("abc", 1750), strings.Repeat("abc", 1751)},
		{`^[A-Z]{0,1200}$`, "", "a"},
		{`^{.*}$`, "{x}", "x"},
		{`^(?!\.)(?!.*\.\.)([a-z.]*)[a-z]@[a-z]+$`, "a.b@c", "a..b@c"},
		{`^(?=.*[A-Z])(?=.*\d)(?=.*[^\w]).{8,}$`, "Abcdef1!", "abcdef1!"},
		{`^(?=.{1,5}$)[a-z]+$`, "abc", "abcdef"},
		{`^(?!(?:con|nul)$)[a-z)(]+$`, "cons", "con"},
		{`^(?=[)(])[()]$`, "(", "a"},
	} {
		p, err := ECMA(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		if !p.MatchString(c.yes) || p.MatchString(c.no) {
			t.Errorf("%s: %v for a match, %v for none", c.source, p.MatchString(c.yes), p.MatchString(c.no))
		}
		if p.String() != c.source {
			t.Errorf("%s calls itself %s", c.source, p)
		}
	}
}

func TestPatternsThatGoCannotDoAreRefused(t *testing.T) {
	for _, source := range []string{
		`(`, `[a-`, `(?<=a)b`, `(?<!a)b`, `(a)\1`, `a(?=b)`, `(?=a)b`, `^(?=a)b|c`, `^(?=(a`, `^(?!a)*b`, `^(?=(?<=x)a)b`, `a{2,1}`, `a{30000}`, `*`, strings.Repeat("a", MaxLength+1),
	} {
		if _, err := ECMA(source); err == nil {
			t.Errorf("%.40s was accepted", source)
		}
	}
}

func TestExamplesOfPatternsMatch(t *testing.T) {
	for _, c := range []struct {
		source string
		length int
	}{
		{`^[A-Z]{2}-[0-9]{3,}$`, 0}, {`^[a-z]+$`, 12}, {`^(red|green)$`, 0}, {`^\d{4}-\d{2}$`, 0}, {`^[a-f0-9]{64}$`, 0}, {`^[^a-z0-9A-Z]+$`, 3}, {`^(?=.*[A-Z])(?=.*\d).{8,64}$`, 0},
		{`^(?!a)[a-z]+$`, 0}, {`^.+@.+\..+$`, 0}, {`[α-ω]`, 0}, {`^\S+( \S+){4}$`, 0}, {`^(?i)abc$`, 0}, {`^x?y*z+$`, 5}, {`^[\w.-]{3,63}$`, 0}, {``, 0}, {`^.{1,4096}$`, 1500},
	} {
		p, err := ECMA(c.source)
		if err != nil {
			t.Fatal(c.source, err)
		}
		found := false
		for _, text := range p.Examples(c.length) {
			found = found || p.MatchString(text) && utf8.RuneCountInString(text) >= c.length
		}
		if !found {
			t.Errorf("no example for %s of %d characters: %.200q", c.source, c.length, p.Examples(c.length))
		}
	}
}

func TestExamplesOfPatternsAreBounded(t *testing.T) {
	p, err := ECMA(`^((a{100}){10}){0,1}((b{100}){10}){0,1}((c+){100}){10}$`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range p.Examples(1_000_000) {
		if len(text) > 2*maxGenerated {
			t.Errorf("%d bytes", len(text))
		}
	}
}
