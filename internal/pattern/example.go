package pattern

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// Examples lists short texts that p may match, at least minLength characters
// long where repetitions allow that. The caller checks them: look-aheads and
// lengths are not looked at here.
func (p *Pattern) Examples(minLength int) []string {
	re, err := syntax.Parse(p.body.text, syntax.Perl)
	if err != nil {
		return nil
	}
	var out []string
	add := func(g generator) {
		g.write(re)
		if text := g.b.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, extra := range []int{0, 1, 2, 4, 8, minLength} {
		for _, letters := range alphabets {
			add(generator{extra: min(extra, 500), letters: letters})
		}
	}
	return out
}

// alphabets are tried in turn: a class is shown by the first of these
// characters that it holds, counting on by one with each use, so that a
// password pattern finds a character of every kind.
var alphabets = []string{"a1A-", "1", "aA1!aA1_", "A", "example"}

// generator writes one text that matches an expression.
type generator struct {
	b       strings.Builder
	extra   int // how often more than the minimum a repetition repeats
	letters string
	used    int
}

const maxGenerated = 2000

func (g *generator) write(re *syntax.Regexp) {
	if g.b.Len() > maxGenerated {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		g.b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		g.b.WriteRune(g.pick(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.b.WriteRune(g.pick([]rune{' ', '~'}))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			g.write(sub)
		}
	case syntax.OpAlternate:
		g.write(re.Sub[min(g.extra, len(re.Sub)-1)])
	case syntax.OpStar:
		g.repeat(re.Sub[0], g.extra)
	case syntax.OpPlus:
		g.repeat(re.Sub[0], 1+g.extra)
	case syntax.OpQuest:
		g.repeat(re.Sub[0], min(g.extra, 1))
	case syntax.OpRepeat:
		n := re.Min + g.extra
		if re.Max >= 0 {
			n = min(n, re.Max)
		}
		g.repeat(re.Sub[0], n)
	}
}

func (g *generator) repeat(re *syntax.Regexp, n int) {
	for range n {
		g.write(re)
	}
}

// pick chooses from a class, given as pairs of first and last rune.
func (g *generator) pick(ranges []rune) rune {
	for range len(g.letters) {
		r := rune(g.letters[g.used%len(g.letters)])
		g.used++
		if inClass(ranges, r) {
			return r
		}
	}
	for _, r := range "a0A_-. " {
		if inClass(ranges, r) {
			return r
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}

func inClass(ranges []rune, r rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}
