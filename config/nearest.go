package config

import (
	"slices"
	"strings"
)

// longestName bounds the names that are compared, which takes the product of
// their lengths. Names of tools and keys are no longer.
const longestName = 64

// nearest returns the name closest to want, or "" when none is close enough to
// be what was meant.
func nearest(want string, have []string) string {
	want = fold(want)
	if len(want) > longestName {
		return ""
	}
	best, bestDistance := "", max(1, len(want)/3)+1
	for _, name := range have {
		folded := fold(name)
		if len(folded) > longestName || abs(len(folded)-len(want)) >= bestDistance {
			continue
		}
		if d := distance(want, folded); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// fold makes names equal that differ only in case and separators.
func fold(s string) string { return separators.Replace(strings.ToLower(s)) }

var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours between a and b, both at most longestName bytes.
func distance(a, b string) int {
	var rows [3][longestName + 1]int
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

// suggestion is the end of a message about an unknown name: the nearest one,
// else all when they are few.
func suggestion(want string, have []string) string {
	if name := nearest(want, have); name != "" {
		return "; did you mean " + quote(name) + "?"
	}
	const few = 30
	if len(have) == 0 || len(have) > few {
		return ""
	}
	have = slices.Clone(have)
	slices.Sort(have)
	return "; known: " + strings.Join(have, ", ")
}
