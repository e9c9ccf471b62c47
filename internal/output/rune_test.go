package output

import (
	"slices"
	"testing"
	"unicode"
)

// unseen are the ranges that no reader sees, or that break a line, beside the black
// flag: written by hand, to be told of it when Unicode's tables change.
var unseen = [][2]rune{
	{0x80, 0x9F}, {0xAD, 0xAD}, {0x34F, 0x34F}, {0x61C, 0x61C}, {0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x180B, 0x180F},
	{0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F}, {0x3164, 0x3164}, {0xFDD0, 0xFDEF}, {0xFE00, 0xFE0F},
	{0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
}

func TestEveryInvisibleCharacterIsJudged(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		want := r&0xFFFE == 0xFFFE || slices.ContainsFunc(unseen, func(span [2]rune) bool { return span[0] <= r && r <= span[1] })
		judged := fateOf(r) != kept && r != blackFlag
		if want != judged {
			t.Errorf("%U: invisible %v, judged %v", r, want, judged)
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
