package output

import (
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

// What looks like a tag of ours is found as a generous reader would read: one who
// undoes escapes (see decode), takes one letter for another that looks like it (see
// twins), and does not care for spaces, slashes, signs and accents between them.
//
// Each opener is looked behind until the first character that does not fit, which
// is the next opener at the latest: so all of them together cost one pass.

// tagName is the name of our tag, in the letters that count.
const tagName = "untrustedoutput"

// maxPrefix bounds what may stand before the name with a colon, as in XML.
const maxPrefix = 32

// nextOpener returns the index, from i on, of the next byte at which something may
// begin that reads like "<"; len(text) when there is none.
func nextOpener(text []byte, i int) int {
	for ; i < len(text); i++ {
		for len(text)-i >= 8 && !mayOpenAny(binary.LittleEndian.Uint64(text[i:])) {
			i += 8
		}
		if i < len(text) && mayOpen[text[i]] {
			return i
		}
	}
	return len(text)
}

// mayOpen are the bytes with which begins what may read like "<": itself, escapes,
// and the first bytes of its look-alikes.
var mayOpen = func() (t [256]bool) {
	t['\\'], t['&'], t['%'] = true, true, true
	for r, sign := range twins {
		if sign == '<' {
			t[string(r)[0]] = true
		}
	}
	return t
}()

// mayOpenAny reports whether one of eight bytes is in mayOpen, or may be: it takes
// all that is no ASCII for such.
func mayOpenAny(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	zero := func(x uint64) uint64 { return (x - ones) &^ x }
	return (x|zero(x^'<'*ones)|zero(x^'\\'*ones)|zero(x^'&'*ones)|zero(x^'%'*ones))&highs != 0
}

// namesTag reports whether what stands at i reads like the name of our tag, with or
// without a prefix.
func namesTag(text []byte, i int) bool {
	for i < len(text) {
		r, size := decode(text, i)
		if !isSoft(r) {
			break
		}
		i += size
	}
	return isName(text, i) || isName(text, i+prefix(text[i:]))
}

func isName(text []byte, i int) bool {
	var letters [maxSpelling]byte
	for found := 0; i < len(text); {
		r, size := decode(text, i)
		i += size
		if isSoft(r) {
			continue
		}
		spelt := spell(letters[:0], r)
		if len(spelt) == 0 {
			return false
		}
		for _, letter := range spelt {
			if letter != tagName[found] {
				return false
			}
			if found++; found == len(tagName) {
				return true
			}
		}
	}
	return false
}

// prefix is how many bytes a name with a colon has at the start of text; 0 when
// there is none.
func prefix(text []byte) int {
	for i, c := range text[:min(len(text), maxPrefix)] {
		switch {
		case c == ':':
			return i + 1
		case c|0x20 < 'a' || c|0x20 > 'z':
			if c != '-' && c != '.' && (c < '0' || c > '9') {
				return 0
			}
		}
	}
	return 0
}

// isSoft reports what a reader passes over on the way to a name, and within one:
// spaces, slashes, lines, dots and quotes, accents, and what cannot be seen.
func isSoft(r rune) bool {
	if r < utf8.RuneSelf {
		switch r {
		case '/', '\\', '_', '-', '.', '*', '`', '"', '\'', '!', '?', '|', '~':
			return true
		default:
			return r <= ' ' || r == 0x7F
		}
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Z, unicode.C, unicode.Pc, unicode.Pd) || twins[r] == '/'
}
