package pattern

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// instructions is an upper bound of the instructions that a tree compiles to,
// repetitions multiplied out; it follows Simplify and compile of regexp/syntax. It is
// no large number: the parser takes no repetition beyond 1,000, nested ones multiplied.
func instructions(tree *syntax.Regexp) int { return sizeOf(tree) + 2 } // fail, match

func sizeOf(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return max(len(re.Rune), 1)
	case syntax.OpCapture, syntax.OpStar:
		return sizeOf(re.Sub[0]) + 2
	case syntax.OpPlus, syntax.OpQuest:
		return sizeOf(re.Sub[0]) + 1
	case syntax.OpConcat, syntax.OpAlternate:
		total := 1
		for _, sub := range re.Sub {
			total += sizeOf(sub) + 1
		}
		return total
	case syntax.OpRepeat:
		once := sizeOf(re.Sub[0])
		if re.Max < 0 {
			return once*max(re.Min, 1) + 2
		}
		return once*re.Min + (once+1)*(re.Max-re.Min) + 1
	default:
		return 1
	}
}

const (
	// maxText bounds what is parsed: an expression, translated.
	maxText = 64 << 10
	// maxClasses bounds the Unicode classes of one expression. Each is a table
	// of hundreds of ranges that are sorted together when they stand in one
	// class: 5,400 of them, in 16 KiB, take four seconds to parse.
	maxClasses = 64
	// maxFolded bounds the ranges beyond ASCII where case is ignored: for each
	// one, the parser looks every character up, which takes 20 ms for the
	// longest.
	maxFolded = 8
)

// bounded refuses what it would take long only to parse.
func bounded(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("its repetitions make it longer than %d bytes", maxText)
	}
	if n := strings.Count(text, `\p`) + strings.Count(text, `\P`); n > maxClasses {
		return fmt.Errorf("at most %d classes of the form \\p can be used", maxClasses)
	}
	if ignoresCase(text) && wideRanges(text) > maxFolded {
		return fmt.Errorf("where case is ignored, at most %d ranges beyond ASCII can be used", maxFolded)
	}
	return nil
}

// ignoresCase reports whether some group may set the flag i.
func ignoresCase(text string) bool {
	for {
		_, rest, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
		text = rest
	}
}

// wideRanges counts what may be a range that ends beyond ASCII, and the classes
// that are folded likewise.
func wideRanges(text string) int {
	n := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	for i := range len(text) - 1 {
		if next := text[i+1]; text[i] == '-' && (next == '\\' || next >= 0x80) {
			n++
		}
	}
	return n
}
