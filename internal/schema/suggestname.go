package schema

import (
	"slices"
	"strings"
)

// rename is the correction of a property that may not be there: a slip of the
// keys in a name that may, or a shorter form of one that must and is missing. A
// null under a name that nobody knows says nothing, and is left out.
func (x *examined) rename(f finding, findings []finding) (edit, bool) {
	v, _ := x.value(f.at)
	obj, _ := x.value(f.at.parent())
	var free []string
	for _, name := range x.allowed(f) {
		if _, taken := (location{name}).at(obj); !taken {
			free = append(free, name)
		}
	}
	if name, ok := x.slipOf(f.name, free); ok {
		return edit{at: f.at, name: name}, true
	}
	missing := func(name string) bool {
		return slices.ContainsFunc(findings, func(m finding) bool { return m.missing() && m.at.equal(f.at.parent().child(name)) })
	}
	if near := x.nearest(f.name, free, 2); len(near) == 1 && missing(near[0]) && shortFor(f.name, near[0]) {
		return edit{at: f.at, name: near[0]}, true
	}
	return edit{at: f.at, drop: true}, v == nil
}

// unknownFor is the place of the one property that no schema knows, though it is
// allowed, and that is the missing one but for slips of the keys; nil when there
// is none, or more than one.
func (x *examined) unknownFor(f finding) location {
	_, unknown := x.unknownNames(f.at.parent(), MaxSuggested)
	name, ok := x.slipOf(f.name, unknown)
	if !ok {
		return nil
	}
	return f.at.parent().child(name)
}

// slipOf is the one text of list that is text but for slips of the keys; false
// when there are several, or none. It is stricter than Nearest, which only asks:
// exclude is near include, and its opposite.
func (l *looks) slipOf(text string, list []string) (string, bool) {
	spelt := newSpelling(text)
	var found []string
	for _, one := range list {
		have := newSpelling(one)
		if !l.compare(spelt, have) {
			return "", false
		}
		if slips(spelt, have) {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// shortFor reports whether short is a way to write long: some of its words (path
// for file_path), its beginning, or some of its letters (tz for timezone). The
// other way round it would be one: exclude_path is not short for path.
func shortFor(short, long string) bool {
	a, b := newSpelling(short), newSpelling(long)
	if len(a.plain) < 2 || len(a.plain) >= len(b.plain) {
		return false
	}
	if slices.ContainsFunc(a.tokens, func(word string) bool { return !slices.Contains(b.tokens, word) }) {
		return strings.HasPrefix(string(b.plain), string(a.plain)) || len(a.tokens) == 1 && abbreviates(a.plain, b.plain)
	}
	return true
}
