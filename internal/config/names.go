package config

import (
	"regexp"
	"slices"
)

// names are those that tools have, where a file names tools.
type names struct {
	declared []string // sorted
	// discovers: some backend finds its tools at run time, so names that the
	// file does not declare may exist.
	discovers  bool
	discovered []string // once they are known
	// guesses is how many more times the nearest name is looked for: each time
	// costs a look at every tool, and only so many messages are shown.
	guesses int
}

// glob warns of one that no tool of the file has.
func (n *names) glob(glob string, w within) {
	switch {
	case n.matches(glob):
	case n.discovers:
		w.find(RuleUndiscovered, "no tool of this file matches "+quote(glob)+"; it has to be a discovered one")
	default:
		w.find(RuleUnknownName, "no tool matches "+quote(glob))
	}
}

// matches reports whether a glob of a profile names some tool of the file; *
// always does.
func (n *names) matches(glob string) bool {
	if glob == "*" || matchGlob(glob, builtinTool) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(n.declared, n.discovered), func(name string) bool { return matchGlob(glob, name) })
}

// known warns of a name that no tool of the file has.
func (n *names) known(name string, w within) {
	if _, ok := slices.BinarySearch(n.declared, name); ok || name == builtinTool || slices.Contains(n.discovered, name) {
		return
	}
	if n.discovers {
		w.find(RuleUndiscovered, "no tool of this file is called "+quote(name)+"; it has to be a discovered one")
		return
	}
	guess := ""
	if n.guesses--; n.guesses >= 0 {
		guess = didYouMean(name, slices.Concat(n.declared, n.discovered))
	}
	w.find(RuleUnknownName, "there is no tool "+quote(name)+guess)
}

// inBraces is a name of a tool in a suggestion.
var inBraces = regexp.MustCompile(`\{([^{}\s]+)\}`)

// suggested warns of tools that a rule names and that nobody has.
func (n *names) suggested(rule RecoveryRule, w within) {
	for i, text := range rule.Suggest {
		for _, named := range inBraces.FindAllStringSubmatch(text, -1) {
			n.known(named[1], w.in("suggest", index(i)))
		}
	}
}
