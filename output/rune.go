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

// fateOf judges a code point of U+0080 and above. The list is Unicode's
// Default_Ignorable_Code_Point, the format characters that change the order of
// others, the controls and the noncharacters. The ranges in which nothing is
// wrong, and in which nearly all text lies, come first.
func fateOf(r rune) fate {
	switch {
	case r > 0xAD && r < 0x34F, r > 0x34F && r < 0x61C, r > 0x61C && r < 0x115F,
		r > 0x206F && r < 0x3164, r > 0x3164 && r < 0xFDD0:
		return kept
	case r < 0xA0:
		return fateOfC1(r)
	case r < 0x2000:
		return fateBelow2000(r)
	case r < 0x2070:
		return fateOfPunctuation(r)
	case r < 0x10000:
		return fateOfSpecials(r)
	default:
		return fateOfSupplementary(r)
	}
}

// fateOfC1 judges U+0080 to U+009F.
func fateOfC1(r rune) fate {
	switch r {
	case 0x85:
		return newline
	case 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F: // DCS SOS CSI OSC PM APC
		return sequence
	default:
		return dropped
	}
}

func fateBelow2000(r rune) fate {
	switch r {
	case 0xAD, // soft hyphen
		0x34F,          // combining grapheme joiner
		0x61C,          // Arabic letter mark
		0x115F, 0x1160, // Hangul fillers
		0x17B4, 0x17B5: // Khmer inherent vowels
		return dropped
	case 0x180B, 0x180C, 0x180D, 0x180E, 0x180F:
		return mongolVS
	default:
		return kept
	}
}

// fateOfPunctuation judges the general punctuation, U+2000 to U+206F.
func fateOfPunctuation(r rune) fate {
	switch {
	case r == zwnj, r == zwj:
		return joiner
	case r == 0x2028, r == 0x2029:
		return newline
	case r == 0x200B, r == 0x200E, r == 0x200F, // zero-width space, direction marks
		r >= 0x202A && r <= 0x202E, // embeddings and overrides
		r >= 0x2060:                // word joiner, invisible operators, isolates
		return dropped
	default:
		return kept
	}
}

// fateOfSpecials judges what is odd from U+3164 to U+FFFF.
func fateOfSpecials(r rune) fate {
	switch {
	case r == 0xFE0E, r == 0xFE0F:
		return emojiVS
	case r == 0x3164, r == 0xFFA0, // Hangul fillers
		r >= 0xFDD0 && r <= 0xFDEF, // noncharacters
		r >= 0xFE00 && r <= 0xFE0D, // variation selectors
		r == 0xFEFF,                // byte order mark
		r >= 0xFFF0 && r <= 0xFFFB, // unassigned, interlinear annotation
		r >= 0xFFFE:                // noncharacters
		return dropped
	default:
		return kept
	}
}

func fateOfSupplementary(r rune) fate {
	switch {
	case r == blackFlag:
		return flagBase
	case r >= 0x1BCA0 && r <= 0x1BCA3, // shorthand format controls
		r >= 0x1D173 && r <= 0x1D17A, // musical format controls
		r >= 0xE0000 && r <= 0xE0FFF, // tags, variation selectors supplement
		r&0xFFFE == 0xFFFE:           // noncharacters
		return dropped
	default:
		return kept
	}
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
