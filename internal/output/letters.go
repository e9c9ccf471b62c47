package output

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// twins are, for each letter of our tag and for its signs, the characters that look
// like it and are none of its compatibility forms: what confusables.txt of Unicode
// (UTS 39) says, the letters with a stroke or hook included, the small capitals, the
// digits and signs that are written in a letter's place, and for "<" its compatibility
// forms, and the other brackets and signs that point to the left.
var twins = func() map[rune]byte {
	like := make(map[rune]byte)
	for _, t := range [...]struct {
		sign  byte
		twins string
	}{
		{'<', "<«˂ᐸᚲ‹≤≦≪≮≺⋖\u2329❬❮❰⟨⟪⦑⧼⩽⪡⪦〈《﹤＜𝈶"},
		{'/', "᜵⁁⁄∕╱⟋⧸⧶Ⳇ\u2F03〳ノ㇓\u4E3F𝈺／＼﹨∖⧵⧹"},
		{'n', "ΝոռⲚꓠ𐔓Ɲƞɳηᵰ𐆎ɴᴎ"},
		{'t', "ΤТᎢ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨ŦŧƫƭƮȾҬᵵ₮⍡ᴛ†"},
		{'r', "ƦгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖ɍɼɽғᵲʀ®ᣴ"},
		{'u', "ʋυՍսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂ɄᏌᵾꮜµμ"},
		{'s', "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺ʂᵴᣵ5$"},
		{'e', "ΕЕеҽᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑢮ɆɇҿᴇЄє€3"},
		{'d', "ԁᎠᏧᑯᗞᗪꓒꓓÐĐđƉƌɖɗ₫ᴅ"},
		{'o', "0ΟοσОоՕօ۵०০੦૦ଠ୦௦ంಂംഠංංംං๐໐ဝ၀ჿዐᴏᴑⲞⲟⵔ\u3007ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠🯰" +
			"ØøǾƟɵΘθϑϴѲѳӨөᎾᏫ⊖⊝⍬ⴱⵁꝊꝋꬾꭴꮎꮻ𝈚𝟅🜔౦೦൦٥סهةھہۿە\u07C0○◯⚪⭕"},
		{'p', "ΡρϱРрᏢᑭ⍴Ⲣⲣꓑ𐊕𝛒ƥᵽᴘ℗ᣖ"},
	} {
		for _, r := range t.twins {
			like[r] = t.sign
		}
	}
	// Regional indicators, and the white letters in black circles and squares.
	for _, first := range [...]rune{0x1F150, 0x1F170, 0x1F1E6} {
		for i := range rune(26) {
			like[first+i] = 'a' + byte(i)
		}
	}
	return like
}()

// maxSpelling is how many letters one character stands for at the most, as far as
// that matters: no longer one is part of a name.
const maxSpelling = 32

// spell appends the letters of the tag's name that a character reads as, in lower
// case; nothing when it reads as anything else.
func spell(dst []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		return appendLetter(dst, r)
	}
	var buf [utf8.UTFMax]byte
	var long [4 * maxSpelling]byte
	for _, part := range string(norm.NFKD.Append(long[:0], buf[:utf8.EncodeRune(buf[:], r)]...)) {
		if unicode.In(part, unicode.Mn, unicode.Me, unicode.Cf) {
			continue
		}
		before := len(dst)
		if dst = appendLetter(dst, part); len(dst) == before {
			return dst[:0]
		}
	}
	return dst
}

func appendLetter(dst []byte, r rune) []byte {
	switch {
	case r >= 'a' && r <= 'z':
		return append(dst, byte(r))
	case r >= 'A' && r <= 'Z':
		return append(dst, byte(r)|0x20)
	}
	letter, like := twins[r]
	if !like {
		letter, like = twins[unicode.ToUpper(r)]
	}
	if !like {
		return dst
	}
	return append(dst, letter)
}
