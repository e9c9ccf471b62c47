package mutants

import "regexp"

// verdict is what a run of a suite says of a mutant.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "survived"
	// inconclusive: the suite failed, but not because a promise was broken.
	inconclusive verdict = "failed for another reason"
)

var otherwise = regexp.MustCompile(`(?m)\[(build|setup) failed\]|^panic: |^go: `)

// read makes a verdict of a suite's output.
func (s Suite) read(output string, failed bool) verdict {
	switch {
	case !failed:
		return survived
	case otherwise.MatchString(output) || !s.Broken.MatchString(output):
		return inconclusive
	default:
		return caught
	}
}
