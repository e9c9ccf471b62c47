package tool

import "strconv"

// Count is a number with what it counts, as a person says it: 1 error, 2 errors.
// noun is one that takes an s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
