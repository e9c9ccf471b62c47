package output

import (
	"testing"
	"unicode"
)

// visibleFormat are the format characters (Cf) that are seen: they enclose or
// precede digits and letters, or join hieroglyphs.
var visibleFormat = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x600, Hi: 0x605, Stride: 1}, {Lo: 0x6DD, Hi: 0x6DD, Stride: 1}, {Lo: 0x70F, Hi: 0x70F, Stride: 1},
		{Lo: 0x890, Hi: 0x891, Stride: 1}, {Lo: 0x8E2, Hi: 0x8E2, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x110BD, Hi: 0x110BD, Stride: 1}, {Lo: 0x110CD, Hi: 0x110CD, Stride: 1},
		{Lo: 0x13430, Hi: 0x1343F, Stride: 1}},
}

// The ranges in fateOf are written by hand; Unicode's own tables check them.
func TestEveryInvisibleCharacterIsJudged(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		invisible := unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point, unicode.Bidi_Control) ||
			unicode.Is(unicode.Cf, r) && !unicode.Is(visibleFormat, r)
		if r == 0x180F { // a Mongolian variation selector, newer than some tables
			invisible = true
		}
		judged := fateOf(r) != kept && r != blackFlag
		if invisible != judged {
			t.Errorf("%U: invisible %v, judged %v", r, invisible, judged)
		}
	}
}

func TestLettersStay(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		hangulFiller := r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0
		if fateOf(r) != kept && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs) && !hangulFiller && r != blackFlag {
			t.Errorf("%U is not kept", r)
		}
	}
}

func TestPictographs(t *testing.T) {
	for _, r := range "😀👩❤☠⚕♀©®‼™🏴🗨" {
		if !pictograph(r) {
			t.Errorf("%c is none", r)
		}
	}
	for _, r := range "a1é日क🇩\u200d\ufe0f\U0001F3FB→" {
		if pictograph(r) {
			t.Errorf("%U is one", r)
		}
	}
}

func TestJoinersBelongToSomeScripts(t *testing.T) {
	for _, r := range "بमকമශကក𑄇ᠮ" {
		if !joining(r) {
			t.Errorf("%c does not join", r)
		}
	}
	for _, r := range "aéאя日한1١😀 \n\u180e" {
		if joining(r) {
			t.Errorf("%U joins", r)
		}
	}
}
