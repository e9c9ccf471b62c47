package injections

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unseen says what a text has that a reader does not see, or that is no text at all;
// empty when it has nothing of the kind.
func Unseen(text string) string {
	var last rune
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return fmt.Sprintf("byte %d is no UTF-8", i)
		}
		if hides(r) && !spells(text[i:], r, last) {
			return fmt.Sprintf("%U at byte %d", r, i)
		}
		last = r
	}
	return ""
}

// hides reports whether a character has no look of its own, by Unicode's own lists.
func hides(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r >= 0x600 && r <= 0x605, r == 0x6DD, r == 0x70F, r == 0x890, r == 0x891, r == 0x8E2, r == 0x110BD, r == 0x110CD:
		return false // signs around Arabic and Kaithi numbers, which are drawn
	case r >= 0x13430 && r <= 0x1343F:
		return false // how hieroglyphs stand together: drawn as signs where they cannot
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// spells reports whether an invisible character is spelling where it is: between
// letters that join, behind a picture, in one of the flags that exist.
func spells(rest string, r, last rune) bool {
	switch {
	case r == 0x200C, r == 0x200D:
		return last > 0x5FF && last != 0x200C && last != 0x200D && !unicode.In(last, unicode.Latin, unicode.Greek, unicode.Cyrillic)
	case r == 0xFE0E, r == 0xFE0F:
		return last != 0xFE0E && last != 0xFE0F && (unicode.Is(unicode.S, last) || strings.HasPrefix(rest[3:], "\u20E3"))
	case r >= 0xE0000 && r <= 0xE007F:
		return last == 0x1F3F4 || last >= 0xE0061 && last <= 0xE007A
	default:
		return false
	}
}
