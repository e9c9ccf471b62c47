package schema

import (
	"slices"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

// Draft is the text of a schema, for whoever wants to know what it says of a
// name without compiling it: a start with a thousand tools has no time for that.
// What it cannot tell it takes for allowed. It holds the whole text, parsed, so
// nobody keeps it.
type Draft struct {
	root any
	// enforced are the names that Options.Closed allows; nil for all.
	enforced *declaration
}

// ReadDraft reads the text of a schema. Of one that is not JSON it knows nothing.
func ReadDraft(text []byte) Draft {
	doc, fault := parseValue(text, false)
	if fault != nil || len(text) > MaxSchemaBytes {
		return Draft{root: true}
	}
	return Draft{root: doc}
}

// maxDraftVisits bounds how many schemas one question looks at: references may
// multiply, and lead in circles.
const maxDraftVisits = 10_000

// namesPerVisit is how many names are as much to collect as a schema to look at.
const namesPerVisit = 16

// draftWalk is one question in the asking.
type draftWalk struct {
	root any
	left int // how many more schemas are looked at
}

func (d Draft) walk() *draftWalk { return &draftWalk{d.root, maxDraftVisits} }

// enter reports whether s is a schema to be looked into.
func (d *draftWalk) enter(s any) (map[string]any, bool) {
	obj, ok := s.(map[string]any)
	d.left--
	return obj, ok && d.left >= 0
}

// Never reports whether arguments that are accepted certainly have no property of
// that name.
func (d Draft) Never(name string) bool {
	return d.enforced.refuses(name) || d.walk().never(d.root, name)
}

// Closed reports whether the schema itself says that arguments can have no
// property but those that it mentions.
func (d Draft) Closed() bool { return d.walk().never(d.root, nobody) }

// Enforced reports whether arguments with other properties are refused, be it
// said or not.
func (d Draft) Enforced() bool { return d.Never(nobody) }

const nobody = "\uE000 nobody's name"

// Mentions reports whether the schema says something of a property of that name.
func (d Draft) Mentions(name string) bool { return d.walk().mentions(d.root, name) }

// Requires reports whether the schema says that the property has to be there.
func (d Draft) Requires(name string) bool {
	return slices.Contains(d.Required(), name)
}

// Required lists, sorted, the properties that the schema says have to be there.
func (d Draft) Required() []string {
	names := map[string]bool{}
	d.walk().required(d.root, names)
	return sortedNames(names)
}

// Names lists, sorted, the properties that the schema mentions by name.
func (d Draft) Names() []string {
	names := map[string]bool{}
	d.walk().names(d.root, names)
	return sortedNames(names)
}

// Nearest is the name that the schema mentions which is spelt most like the one
// given; empty when none is near.
func (d Draft) Nearest(name string) string { return tool.Closest(name, d.Names()) }

func (d *draftWalk) never(s any, name string) bool {
	if allowed, isBool := s.(bool); isBool {
		return !allowed
	}
	obj, ok := d.enter(s)
	if !ok {
		return false
	}
	of := func(sub any) bool { return d.never(sub, name) }
	properties, _ := obj["properties"].(map[string]any)
	own, mentioned := properties[name]
	switch {
	case mentioned && own == false, misnamed(obj["propertyNames"], name):
		return true
	case !mentioned && obj["additionalProperties"] == false && !matchesPattern(obj, name):
		return true
	case obj["unevaluatedProperties"] == false && !d.mentions(obj, name):
		return true
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		if branches, ok := obj[union].([]any); ok && len(branches) > 0 && !slices.ContainsFunc(branches, func(b any) bool { return !of(b) }) {
			return true
		}
	}
	all, _ := obj["allOf"].([]any)
	target, found := d.target(obj)
	return slices.ContainsFunc(all, of) || found && of(target)
}

// mentions looks at whatever may apply to the same object.
func (d *draftWalk) mentions(s any, name string) bool {
	obj, ok := d.enter(s)
	if !ok {
		return false
	}
	properties, _ := obj["properties"].(map[string]any)
	if own, ok := properties[name]; ok && own != false || matchesPattern(obj, name) || isObject(obj["additionalProperties"]) {
		return true
	}
	return slices.ContainsFunc(d.beside(obj), func(sub any) bool { return d.mentions(sub, name) })
}

func (d *draftWalk) required(s any, into map[string]bool) {
	obj, ok := d.enter(s)
	if !ok {
		return
	}
	list, _ := obj["required"].([]any)
	d.left -= len(list) / namesPerVisit
	for _, name := range list {
		if name, is := name.(string); is {
			into[name] = true
		}
	}
	all, _ := obj["allOf"].([]any)
	for _, sub := range all {
		d.required(sub, into)
	}
	if target, found := d.target(obj); found {
		d.required(target, into)
	}
}

func (d *draftWalk) names(s any, into map[string]bool) {
	obj, ok := d.enter(s)
	if !ok {
		return
	}
	properties, _ := obj["properties"].(map[string]any)
	d.left -= len(properties) / namesPerVisit
	for name := range properties {
		into[name] = true
	}
	for _, sub := range d.beside(obj) {
		d.names(sub, into)
	}
}

// beside are the schemas that may apply to the same object.
func (d *draftWalk) beside(obj map[string]any) []any {
	subs := inPlaceIn(obj)
	if target, found := d.target(obj); found {
		subs = append(subs, target)
	}
	return subs
}

// target is what a local $ref leads to.
func (d *draftWalk) target(obj map[string]any) (any, bool) {
	ref, ok := obj["$ref"].(string)
	if !ok {
		return nil, false
	}
	return referredTo(d.root, ref)
}

func matchesPattern(obj map[string]any, name string) bool {
	patterns, _ := obj["patternProperties"].(map[string]any)
	return anyMatches(patterns, name)
}

func anyMatches[V any](patterns map[string]V, name string) bool {
	for source := range patterns {
		if p, err := pattern.ECMA(source); err != nil || p.MatchString(name) {
			return true
		}
	}
	return false
}

// misnamed reports whether the plain parts of propertyNames exclude a name.
func misnamed(names any, name string) bool {
	obj, ok := names.(map[string]any)
	if !ok {
		return names == false
	}
	if allowed, ok := obj["enum"].([]any); ok && !slices.Contains(stringsOf(allowed), name) {
		return true
	}
	if source, ok := obj["pattern"].(string); ok {
		p, err := pattern.ECMA(source)
		return err == nil && !p.MatchString(name)
	}
	return false
}
