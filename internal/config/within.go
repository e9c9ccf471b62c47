package config

import "slices"

// within is a part of the file in which something is looked for.
type within struct {
	found *collector
	top   spot
	keys  []string // that lead to it from top
}

// checked is a type of which tags cannot say all that is wrong with a value: where
// keys of it contradict each other. What is wrong already has its zero value, of which
// nothing is said.
type checked interface{ check(w within) }

// in is the part that the keys lead to.
func (w within) in(keys ...string) within {
	w.keys = slices.Concat(w.keys, keys)
	return w
}

// bad notes keys that contradict each other.
func (w within) bad(message string) { w.find(RuleConflict, message) }

// warn notes what is allowed and rarely meant; find has better names for most.
func (w within) warn(message string) { w.find(RuleDoubtful, message) }

// find notes what a rule has found.
func (w within) find(rule Rule, message string) {
	here, _ := w.top.down(w.keys)
	w.found.find(rule, here.at(), "%s", message)
}

// written reports whether the file has a text there, be it one whose reference
// cannot be resolved.
func (w within) written() bool {
	here, there := w.top.down(w.keys)
	return there && here.node.Value != ""
}
