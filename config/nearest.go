package config

import (
	"slices"
	"strings"
)

// nearest returns the name closest to want, or "" when none is close enough to
// be what was meant.
func nearest(want string, have []string) string {
	const longest = 64 // names are no longer, and the work is quadratic
	if len(want) > longest {
		return ""
	}
	want = fold(want)
	best, bestDistance := "", max(1, len(want)/3)+1
	for _, name := range have {
		if len(name) > longest {
			continue
		}
		if d := distance(want, fold(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// fold makes names equal that differ only in case and separators.
func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(s))
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours between a and b.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
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
		before, last = last, row
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
