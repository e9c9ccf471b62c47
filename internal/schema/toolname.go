package schema

import (
	"slices"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/internal/tool"
)

// Offered is a tool that may be called, as far as a suggestion needs it.
type Offered struct {
	Name   string
	Effect tool.Effect
}

// readingVerbs are the words by which the name of a tool says that it only looks.
var readingVerbs = map[string]bool{
	"browse": true, "check": true, "count": true, "describe": true, "fetch": true, "find": true, "get": true,
	"inspect": true, "list": true, "lookup": true, "peek": true, "preview": true, "query": true, "read": true,
	"retrieve": true, "search": true, "show": true, "view": true,
}

// Meant returns the tools that whoever called a tool that does not exist may
// have meant, likeliest first, at most limit. A tool without an effect is
// suggested where its name is like the one asked for. One with an effect only
// where it is the same name but for slips of the keys, and never for a name that
// asks to look, unless it has the very same verb.
func Meant(asked string, offered []Offered, limit int) []string {
	name := newSpelling(asked)
	return likeTools(name, offered, limit, func(o Offered, have spelling) bool {
		return o.Effect == tool.ReadOnly || slips(name, have) && keepsVerb(name, have)
	})
}

// Instead returns the tools that are like one which exists and may not be
// called, nearest first, at most limit: none does more harm than it would have.
func Instead(of Offered, offered []Offered, limit int) []string {
	return likeTools(newSpelling(of.Name), offered, limit, func(o Offered, _ spelling) bool {
		return !Stronger(o.Effect, of.Effect)
	})
}

// Stronger reports whether a call of the one effect can do harm that none of
// the other can: any effect where there was none, one that must not be repeated
// where repeating did nothing.
func Stronger(one, other tool.Effect) bool { return strength[one] > strength[other] }

var strength = map[tool.Effect]int{tool.ReadOnly: 0, tool.Idempotent: 1, tool.Keyed: 1, tool.NonIdempotent: 2}

// likeTools are the tools that may be suggested for a name.
func likeTools(name spelling, offered []Offered, limit int, may func(Offered, spelling) bool) []string {
	var found []candidate
	for _, o := range offered {
		have := newSpelling(o.Name)
		if d := toolDistance(name, have); d < tooFar && may(o, have) {
			found = append(found, candidate{o.Name, d, strength[o.Effect]})
		}
	}
	return likeliest(found, limit)
}

// toolDistance is distance without abbreviations: an argument is tz for
// timezone, but fail is no way to write fs_read_text_file. Nor is a verb alone
// like everything that begins with it.
func toolDistance(a, b spelling) int {
	d := distance(a, b)
	switch {
	case d < leftOut: // another spelling of the same words, slips of the keys
		return d
	case d < cutShort && slices.ContainsFunc(a.tokens, func(word string) bool { return !readingVerbs[word] && slices.Contains(b.tokens, word) }):
		return d
	case cutShort <= d && d < abbreviated:
		if short := a.plain[:min(len(a.plain), len(b.plain))]; len(short) >= 4 && !readingVerbs[string(short)] {
			return d
		}
	}
	return tooFar
}

// slips reports whether two names are the same word for word, but for one slip
// of the keys in each. A first letter, a number or a short word is no slip: nor
// does unlock become lock, or v1 become v2.
func slips(a, b spelling) bool {
	if string(a.plain) == string(b.plain) {
		return len(a.plain) > 0
	}
	if len(a.tokens) != len(b.tokens) {
		return slip(string(a.plain), string(b.plain))
	}
	for i, word := range a.tokens {
		if word != b.tokens[i] && !slip(word, b.tokens[i]) {
			return false
		}
	}
	return true
}

func slip(a, b string) bool {
	x, y := []rune(a), []rune(b)
	return min(len(x), len(y)) >= 4 && x[0] == y[0] && digits(a) == digits(b) && tool.EditDistance(x, y) == 1
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// keepsVerb reports whether each word by which a name asks to look is one of
// the other too.
func keepsVerb(asked, have spelling) bool {
	return !slices.ContainsFunc(asked.tokens, func(word string) bool {
		return readingVerbs[word] && !slices.Contains(have.tokens, word)
	})
}
