package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// newSensitiveness finds what the author of a schema marked, beside what the
// operator lists.
func newSensitiveness(root *jsonschema.Schema, listed []string, ix *index) *sensitiveness {
	s := &sensitiveness{}
	found := map[string]bool{}
	for _, name := range listed {
		found[name] = true
	}
	type place struct {
		schema *jsonschema.Schema
		owner  string
	}
	seen := map[place]bool{}
	var walk func(sch *jsonschema.Schema, owner string)
	walk = func(sch *jsonschema.Schema, owner string) {
		if seen[place{sch, owner}] {
			return
		}
		seen[place{sch, owner}] = true
		if markedSecret(ix.source(sch)) {
			found[owner] = true
		}
		for _, e := range edges(sch) {
			next := owner
			if e.slot == property {
				next = e.name
			}
			walk(e.to, next)
		}
	}
	walk(root, "")
	s.all = found[""]
	delete(found, "")
	s.names = sortedNames(found)
	return s
}

// markedSecret reports whether a schema's author marked it so.
func markedSecret(source map[string]any) bool {
	return source["writeOnly"] == true || source["format"] == "password"
}
