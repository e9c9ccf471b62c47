package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/internal/tool"
)

// nearest returns the names of have that are spelt, or abbreviated, most like
// want, best first, at most limit, among as many as there are looks for. Names that are
// not alike are not returned.
func (l *looks) nearest(want string, have []string, limit int) []string {
	var found []candidate
	spelt := newSpelling(want)
	for _, name := range have {
		one := newSpelling(name)
		if !l.compare(spelt, one) {
			return nil
		}
		if d := distance(spelt, one); d < tooFar {
			found = append(found, candidate{name: name, distance: d})
		}
	}
	return likeliest(found, limit)
}

// candidate is a name that may have been meant.
type candidate struct {
	name           string
	distance, harm int
}

// likeliest are the names of the candidates that are nearest, and do least harm, at most limit.
func likeliest(found []candidate, limit int) []string {
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(a.distance-b.distance, a.harm-b.harm, strings.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range found[:min(limit, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// From which distance names are alike in another way: words left out, the end
// left out, letters left out; and from which they are not alike.
const (
	leftOut     = 40
	cutShort    = 60
	abbreviated = 140
	tooFar      = 1000
)

// spelling is a name prepared for comparison.
type spelling struct {
	exact  string
	plain  []rune   // lower case, letters and digits only, at most tool.MaxSpelling
	tokens []string // the words of snake_case, kebab-case, camelCase, in lower case, singular
}

func newSpelling(name string) spelling {
	s := spelling{exact: name}
	var word []rune
	flush := func() {
		if len(word) > 0 {
			s.tokens = append(s.tokens, singular(string(word)))
			word = word[:0]
		}
	}
	previousLower := false
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			previousLower = false
			continue
		}
		if unicode.IsUpper(r) && previousLower {
			flush()
		}
		previousLower = unicode.IsLower(r) || unicode.IsDigit(r)
		lower := unicode.ToLower(r)
		word = append(word, lower)
		if s.plain = append(s.plain, lower); len(s.plain) == tool.MaxSpelling {
			break
		}
	}
	flush()
	return s
}

func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return word[:len(word)-1]
	}
	return word
}

// distance grades how unlike two names are: 0 for equal, then another spelling
// of the same words, a slip of the keys, words left out, abbreviations.
func distance(a, b spelling) int {
	switch {
	case a.exact == b.exact:
		return 0
	case len(a.plain) == 0 || len(b.plain) == 0:
		return tooFar
	case string(a.plain) == string(b.plain):
		return 1
	}
	if d := typos(a.plain, b.plain); d < tooFar {
		if a.plain[0] != b.plain[0] { // the first letter is seldom wrong
			return 10*d + 1
		}
		return 10 * d
	}
	if extra, ok := sameWords(a.tokens, b.tokens); ok {
		return leftOut + min(extra, cutShort-leftOut-1)
	}
	short, long := a.plain, b.plain
	if len(short) > len(long) {
		short, long = long, short
	}
	longer := len(long) - len(short)
	switch {
	case len(short) >= 3 && string(long[:len(short)]) == string(short):
		return cutShort + longer
	case len(short) >= 2 && abbreviates(short, long):
		return abbreviated + longer
	case len(short) == 1 && short[0] == long[0]:
		return 220 + longer
	}
	return tooFar
}

// sameOrTypo is a stricter likeness: the same words, or a slip of the keys.
func sameOrTypo(a, b spelling) bool {
	return a.exact == b.exact || len(a.plain) > 0 && (slices.Equal(a.plain, b.plain) || typos(a.plain, b.plain) < tooFar)
}

// maxTypos is the most that typos forgives.
const maxTypos = 3

// cells is what typos costs: so many cells has the table of a distance, which is not made
// for names whose lengths differ too much.
func cells(a, b []rune) int {
	if abs(len(a)-len(b)) > maxTypos {
		return 1
	}
	return 1 + len(a)*len(b)
}

// typos is the number of keys to blame: insertions, deletions, replacements,
// and swaps of neighbours. tooFar when there are more than a name of that
// length suffers by accident.
func typos(a, b []rune) int {
	longest := max(len(a), len(b))
	limit := maxTypos
	switch {
	case longest <= 4:
		limit = 1
	case longest <= 8:
		limit = 2
	}
	if longest-min(len(a), len(b)) > limit {
		return tooFar
	}
	if d := tool.EditDistance(a, b); d <= limit && 2*d < longest {
		return d
	}
	return tooFar
}

// sameWords reports whether all words of one name are words of the other, and
// how many more that one has.
func sameWords(a, b []string) (extra int, ok bool) {
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, word := range a {
		if len(word) < 2 || !slices.Contains(b, word) {
			return 0, false
		}
	}
	return len(b) - len(a), true
}

// abbreviates reports whether short is long with letters left out, beginning
// with the same one: tz for timezone, msg for message.
func abbreviates(short, long []rune) bool {
	if short[0] != long[0] {
		return false
	}
	i := 0
	for _, r := range long {
		if i < len(short) && short[i] == r {
			i++
		}
	}
	return i == len(short)
}
