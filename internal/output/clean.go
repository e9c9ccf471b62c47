package output

import (
	"encoding/binary"
	"unicode/utf8"
)

// Clean returns text as a model may see it: what a human reader of a terminal
// would not see does not reach the model either.
//
//   - A run of invalid UTF-8 becomes one U+FFFD.
//   - \r\n, \r, \v, \f, U+0085, U+2028 and U+2029 become \n. Other control
//     characters but \n and \t go.
//   - ANSI, OSC and the other terminal sequences go whole.
//   - Invisible and bidirectional characters go: zero-width space, BOM, soft
//     hyphen, direction marks, overrides and isolates, tag characters, variation
//     selectors, fillers, noncharacters.
//
// Some invisible characters are spelling, and stay only where they are: ZWJ
// between two pictographs; one ZWJ or ZWNJ behind a letter of a joining script
// (Persian, Hindi, ...); VS15 and VS16 behind a pictograph, VS16 in a keycap;
// Mongolian selectors behind a Mongolian letter; the tags of the flags of
// England, Scotland and Wales. That leaves a writer of such a script at most
// one hidden choice per letter, and nobody else any. Variation selectors of
// ideographs go: they choose a glyph, never another character.
//
// Clean text is returned as it is, after one scan. Cleaning twice is cleaning once.
func Clean(b []byte) string { return string(clean(b)) }

// clean is Clean; it returns b itself when there is nothing to clean.
func clean(b []byte) []byte {
	i := firstTrouble(b)
	if i == len(b) {
		return b
	}
	return cleanFrom(make([]byte, 0, len(b)+utf8.UTFMax), b, i)
}

// cleanFrom appends b to dst, cleaned; it is clean before i.
func cleanFrom(dst, b []byte, i int) []byte {
	// Start over where no context is needed.
	for i > 0 && b[i-1] >= utf8.RuneSelf {
		i--
	}
	i = max(i-1, 0)
	c := cleaner{src: b, out: append(dst, b[:i]...)}
	for i < len(b) {
		i = c.step(i)
	}
	return c.out
}

// plain marks the ASCII that is always kept.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := byte(' '); c < 0x7F; c++ {
		t[c] = true
	}
	t['\n'], t['\t'] = true, true
	return t
}()

// firstTrouble returns the index of the first byte that cleaning might change;
// len(b) when there is none.
func firstTrouble(b []byte) int {
	for i := 0; i < len(b); {
		for len(b)-i >= 8 && printable(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i == len(b) {
			break
		}
		if c := b[i]; c < utf8.RuneSelf {
			if !plain[c] {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || fateOf(r) != kept {
			return i
		}
		i += size
	}
	return len(b)
}

// printable reports that all of eight bytes are 0x20 to 0x7E.
func printable(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	del := x ^ 0x7F*ones
	return (x|(x-0x20*ones)|(del-ones)&^del)&highs == 0
}

// cleaner copies src to out, without what does not belong there.
type cleaner struct {
	src, out []byte
	// last is the last character kept; base the last one that is neither a
	// variation selector nor a skin tone.
	last, base rune
}

// step handles what starts at i and returns the index behind it.
func (c *cleaner) step(i int) int {
	if c.src[i] < utf8.RuneSelf {
		return c.ascii(i)
	}
	r, size := utf8.DecodeRune(c.src[i:])
	if r == utf8.RuneError && size == 1 {
		for r == utf8.RuneError && size == 1 {
			i++
			r, size = utf8.DecodeRune(c.src[i:])
		}
		c.keep(utf8.RuneError)
		return i
	}
	i += size
	return c.meet(r, i)
}

// meet does with r what its fate is, and returns the index behind what that
// concerns; next is the one behind r.
func (c *cleaner) meet(r rune, next int) int {
	switch fateOf(r) {
	case kept:
		c.keep(r)
	case dropped:
	case newline:
		c.keep('\n')
	case sequence:
		return skipC1(c.src, next)
	case joiner:
		if joining(c.last) || r == zwj && pictograph(c.following(next)) && pictograph(c.base) {
			c.keep(r)
		}
	case emojiVS:
		if c.variant(r, next) {
			c.keep(r)
		}
	case mongolVS:
		if mongolian(c.last) {
			c.keep(r)
		}
	case flagBase:
		c.keep(r)
		return c.flagTags(next)
	}
	return next
}

// ascii handles a run of plain ASCII, or one control character.
func (c *cleaner) ascii(i int) int {
	j := i
	for j < len(c.src) && c.src[j] < utf8.RuneSelf && plain[c.src[j]] {
		j++
	}
	if j > i {
		c.out = append(c.out, c.src[i:j]...)
		c.last = rune(c.src[j-1])
		c.base = c.last
		return j
	}
	switch c.src[i] {
	case esc:
		return skipEscape(c.src, i)
	case '\r':
		if i+1 < len(c.src) && c.src[i+1] == '\n' {
			return i + 1
		}
		c.keep('\n')
	case '\v', '\f':
		c.keep('\n')
	}
	return i + 1
}

func (c *cleaner) keep(r rune) {
	c.out = utf8.AppendRune(c.out, r)
	c.last = r
	if !skinTone(r) && r != 0xFE0E && r != 0xFE0F {
		c.base = r
	}
}

// variant reports whether a variation selector has something to select from.
// next is the index behind r.
func (c *cleaner) variant(r rune, next int) bool {
	if c.last >= '0' && c.last <= '9' || c.last == '#' || c.last == '*' {
		return r == 0xFE0F && c.following(next) == keycap
	}
	return pictograph(c.last)
}

func (c *cleaner) following(i int) rune {
	r, _ := utf8.DecodeRune(c.src[i:])
	return r
}

// flagTags keeps the tags behind a black flag when they make it a known flag.
func (c *cleaner) flagTags(i int) int {
	for _, tags := range flagTags {
		if len(c.src)-i >= len(tags) && string(c.src[i:i+len(tags)]) == tags {
			c.out = append(c.out, tags...)
			return i + len(tags)
		}
	}
	return i
}
