package app

import (
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
)

// problems collects everything that is wrong with a config, or may hurt, with
// the places in the file: whoever mends it wants to read it once.
type problems struct {
	config *config.Config
	// known is what is wrong with the file itself: what follows from it is not
	// told again.
	known    config.Problems
	found    config.Problems
	warnings []config.Problem
}

// add records what a rule has found at a place in the file.
func (p *problems) add(rule config.Rule, message string, path ...string) {
	p.note(rule, message, p.config.Where(path...))
}

// addAtKey records what a rule has found about the key at a place in the file.
func (p *problems) addAtKey(rule config.Rule, message string, path ...string) {
	p.note(rule, message, p.config.WhereKey(path...))
}

func (p *problems) note(rule config.Rule, message string, at config.Problem) {
	at.Message, at.Rule = p.config.MaskAt(at.Path, message), rule
	switch {
	case rule.Severity() != config.Wrong:
		p.warnings = append(p.warnings, at)
	case !slices.ContainsFunc(p.known, func(cause config.Problem) bool { return follows(at, cause) }):
		p.found = append(p.found, at)
	}
}

// follows reports whether a problem comes of one that is known: of a value at its
// place or below it that could not be read, or of a key that is missing there.
func follows(p, cause config.Problem) bool {
	switch cause.Rule { //nolint:exhaustive // of other rules nothing follows
	case config.RuleValue:
		above := p.Path[:max(0, strings.LastIndexAny(p.Path, ".["))]
		return cause.Path == above || config.Below(cause.Path, p.Path)
	case config.RuleReference, config.RuleConflict:
		return config.Below(cause.Path, p.Path)
	default:
		return false
	}
}

// addEach records each thing that an error says, at the place that it names
// below path.
func (p *problems) addEach(err error, path ...string) {
	for _, one := range locate(err, path) {
		p.add(one.rule, one.err.Error(), one.path...)
	}
}

// err is what was found, by position, as config.Problems; nil when nothing was.
func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	config.SortProblems(p.found)
	return p.found
}
