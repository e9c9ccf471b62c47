package failures

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sign is how an error shows what it is about: each part is in it, in any order.
// Built-in rules have signs instead of patterns: there are hundreds, and all of them
// are looked for in every error, of which there may be a thousand a second.
type sign []part

// part is in an error when one of its words is.
type part []word

// word is one word, or several in a row, in lower case.
type word struct {
	text string
	// begins: only the beginning of the last word is given.
	begins bool
}

// signsOf reads signs: "no such file|file/path + not found|pars*" is three of them.
// Of an empty text it is nil.
func signsOf(text string) []sign {
	if text == "" {
		return nil
	}
	var out []sign
	for one := range strings.SplitSeq(text, "|") {
		var s sign
		for alternatives := range strings.SplitSeq(one, " + ") {
			var p part
			for text := range strings.SplitSeq(alternatives, "/") {
				bare, begins := strings.CutSuffix(text, "*")
				p = append(p, word{bare, begins})
			}
			s = append(s, p)
		}
		out = append(out, s)
	}
	return out
}

// in reports whether an error, in lower case, has the sign.
func (s sign) in(text string) bool {
	return !slices.ContainsFunc(s, func(p part) bool {
		return !slices.ContainsFunc(p, func(w word) bool { return w.in(text) })
	})
}

func (w word) in(text string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], w.text)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(w.text)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !inWord(before) && (w.begins || !inWord(after)) {
			return true
		}
		at = end
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
