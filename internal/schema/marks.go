package schema

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newSensitiveness finds what the author of a schema marked, beside what the
// operator lists.
func newSensitiveness(root *jsonschema.Schema, listed []string, ix *index) *sensitiveness {
	found := map[string]bool{}
	for _, name := range listed {
		found[name] = true
	}
	secret := marked(ix)
	for _, s := range ix.byLocation {
		for _, e := range edges(s) {
			if e.slot == property && secret[e.to] {
				found[e.name] = true
			}
		}
	}
	s := &sensitiveness{all: found[""] || secret[root]}
	delete(found, "")
	for _, name := range sortedNames(found) {
		s.names = append(s.names, secretName{newSpelling(name), strings.ToLower(name)})
	}
	return s
}

// marked are the schemas whose values are secret as a whole: those that their author
// marked, and those that apply one of these in another way than to a property.
func marked(ix *index) map[*jsonschema.Schema]bool {
	appliedBy := map[*jsonschema.Schema][]*jsonschema.Schema{}
	for _, s := range ix.byLocation {
		for _, e := range edges(s) {
			if e.slot != property {
				appliedBy[e.to] = append(appliedBy[e.to], s)
			}
		}
	}
	secret := map[*jsonschema.Schema]bool{}
	var mark func(s *jsonschema.Schema)
	mark = func(s *jsonschema.Schema) {
		if secret[s] {
			return
		}
		secret[s] = true
		for _, by := range appliedBy[s] {
			mark(by)
		}
	}
	for _, s := range ix.byLocation {
		if markedSecret(ix.source(s)) {
			mark(s)
		}
	}
	return secret
}

// markedSecret reports whether a schema's author marked it so.
func markedSecret(source map[string]any) bool {
	return source["writeOnly"] == true || source["format"] == "password"
}
