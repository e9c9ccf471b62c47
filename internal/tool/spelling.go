package tool

import "strings"

// MaxSpelling is how many characters of a name EditDistance looks at: comparing
// takes the product of the lengths. Names of tools and of keys are no longer.
const MaxSpelling = 64

// EditDistance counts the insertions, deletions, replacements and swaps of
// neighbours that make b of a (optimal string alignment). Of each it compares
// the first MaxSpelling characters.
func EditDistance(a, b []rune) int {
	a, b = a[:min(len(a), MaxSpelling)], b[:min(len(b), MaxSpelling)]
	var rows [3][MaxSpelling + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Closest returns the one of have that whoever wrote want most likely meant, or
// "" when none is close: case and separators apart, it differs in at most a
// third of the characters. Of names that are equally close it is the first.
func Closest(want string, have []string) string {
	meant := fold(want)
	if len(meant) > MaxSpelling {
		return ""
	}
	best, least := "", max(1, len(meant)/3)+1
	for _, name := range have {
		folded := fold(name)
		if longer := len(folded) - len(meant); len(folded) > MaxSpelling || max(longer, -longer) >= least {
			continue
		}
		if d := EditDistance(meant, folded); d < least {
			best, least = name, d
		}
	}
	return best
}

// fold makes names equal that differ only in case and separators.
func fold(name string) []rune { return []rune(separators.Replace(strings.ToLower(name))) }

var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")
