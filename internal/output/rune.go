package output

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// fate is what cleaning does with a code point.
type fate uint8

const (
	kept fate = iota
	dropped
	newline  // a line break under another name
	sequence // an 8-bit introducer of a terminal sequence
	// The rest is spelling in one place and a hiding place in all others: it
	// stays or not, depending on what stands around it.
	joiner   // ZWJ, ZWNJ
	emojiVS  // variation selectors 15 and 16
	mongolVS // Mongolian variation selectors and vowel separator
	flagBase // the black flag, which tags may follow
)

const (
	zwnj      = '\u200C'
	zwj       = '\u200D'
	blackFlag = '\U0001F3F4'
	keycap    = '\u20E3'
)

// invisible is what Unicode says has no shape, changes the order of others, or is no
// character.
var invisible = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point,
}

// fateOf judges a code point of U+0080 and above. The ranges in which nothing is
// wrong, and in which nearly all text lies, come first.
func fateOf(r rune) fate {
	switch {
	case r > 0xAD && r < 0x34F, r > 0x34F && r < 0x61C, r > 0x61C && r < 0x115F, r > 0x200F && r < 0x2028,
		r > 0x206F && r < 0x3164, r > 0x3164 && r < 0xFDD0, r > 0xFEFF && r < 0xFFA0,
		r > 0x1D17A && r < blackFlag, r > blackFlag && r < 0x1FFFE:
		return kept
	case r == 0x85, r == 0x2028, r == 0x2029:
		return newline
	case r == 0x90, r == 0x98, r >= 0x9B && r <= 0x9F && r != 0x9C: // DCS SOS CSI OSC PM APC
		return sequence
	case r == zwnj, r == zwj:
		return joiner
	case r == 0xFE0E, r == 0xFE0F:
		return emojiVS
	case r >= 0x180B && r <= 0x180F:
		return mongolVS
	case r == blackFlag:
		return flagBase
	case unicode.In(r, invisible...) && !visibleFormat(r):
		return dropped
	default:
		return kept
	}
}

// visibleFormat reports the format characters that are seen: they enclose or precede
// digits and letters, or join hieroglyphs.
func visibleFormat(r rune) bool {
	return unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r >= 0x13430 && r <= 0x1343F
}

// pictograph reports whether r is Extended_Pictographic: exactly those code
// points does a ZWJ bind to another pictograph.
func pictograph(r rune) bool {
	if r < 0x203C && r != 0xA9 && r != 0xAE {
		return false
	}
	const tail = "\u200D\U0001F600"
	var buf [utf8.UTFMax + len(tail)]byte
	probe := append(utf8.AppendRune(buf[:0], r), tail...)
	return uniseg.GraphemeClusterCount(string(probe)) == 1
}

// skinTone reports the emoji modifiers, which may stand between a pictograph
// and its ZWJ.
func skinTone(r rune) bool { return r >= 0x1F3FB && r <= 0x1F3FF }

// joining reports whether r is a letter or mark of a script whose spelling uses
// ZWJ and ZWNJ: Arabic and its relatives, Mongolian, and the scripts of India
// and South-East Asia.
func joining(r rune) bool {
	switch {
	case r >= 0x0600 && r <= 0x0DFF, r >= 0x0F00 && r <= 0x109F, r >= 0x1780 && r <= 0x18AF,
		r >= 0x1A20 && r <= 0x1AAF, r >= 0x1B00 && r <= 0x1CFF, r >= 0xA800 && r <= 0xA8FF,
		r >= 0xA980 && r <= 0xAAFF, r >= 0xABC0 && r <= 0xABFF, r >= 0xFB50 && r <= 0xFEFC,
		r >= 0x10A00 && r <= 0x11FFF, r >= 0x1E900 && r <= 0x1E95F:
		return unicode.IsLetter(r) || unicode.IsMark(r) && fateOf(r) == kept
	default:
		return false
	}
}

func mongolian(r rune) bool { return r >= 0x1820 && r <= 0x18AA }

// flagTags are the tag sequences of the three flags that exist: England,
// Scotland and Wales. Any other text in tag characters is smuggled.
var flagTags = [...]string{tags("gbeng"), tags("gbsct"), tags("gbwls")}

// tags spells s in tag characters, with the closing one.
func tags(s string) string {
	var b []byte
	for _, r := range s {
		b = utf8.AppendRune(b, 0xE0000+r)
	}
	return string(utf8.AppendRune(b, 0xE007F))
}
