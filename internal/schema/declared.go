package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// declaration is what a schema says about the names of arguments: at its root, and
// in all that it applies there (allOf, anyOf, $ref, then, ...).
type declaration struct {
	names    map[string]bool
	patterns map[string]bool
	// open: it says itself that there may be others, or it is too unusual to tell.
	open bool
	// said: it names its arguments, be it that there are none.
	said bool
}

// maxInPlace bounds the schemas that are looked into for names.
const maxInPlace = 1000

// declared is what doc, a schema, says of the names of arguments, where others are to be
// refused: a misspelt option, or a dry_run that the tool never heard of, would else be
// sent as if it meant something, or overwrite what the sender of the request has fixed.
// It is nil where there may be others.
//
// JSON Schema allows what is not named. Here a schema has to say so:
// additionalProperties or unevaluatedProperties other than false, a name that
// fits its patternProperties, propertyNames; or it names no argument at all. Values
// within arguments are left as JSON Schema has them.
func declared(doc any) *declaration {
	root, isObject := doc.(map[string]any)
	if !isObject {
		return nil
	}
	d := &declaration{names: map[string]bool{}, patterns: map[string]bool{}}
	d.read(root, root, map[string]bool{})
	if _, has := root["additionalProperties"]; has || d.open || !d.said {
		return nil
	}
	return d
}

// refuses reports whether there can be no argument of that name.
func (d *declaration) refuses(name string) bool {
	return d != nil && !d.names[name] && !anyMatches(d.patterns, name)
}

// argumentsURL is where the schema of arguments is that are closed.
const argumentsURL = "sidecall:///arguments.json#"

// closing is root without the names that d refuses. It is a schema beside root, which may
// be that of values within the arguments too.
func (d *declaration) closing(root *jsonschema.Schema, e *engine) *jsonschema.Schema {
	if d == nil {
		return root
	}
	top, yes := *root, true
	anything := func(keyword, name string) *jsonschema.Schema {
		return &jsonschema.Schema{Bool: &yes, DraftVersion: root.DraftVersion, Location: argumentsURL + pointerTo("", keyword, name)}
	}
	top.Location = argumentsURL
	if root.DraftVersion < 2019 && root.Ref != nil { // beside which nothing counts
		top.Ref, top.AllOf = nil, []*jsonschema.Schema{root.Ref}
	}
	top.Properties = map[string]*jsonschema.Schema{}
	for name := range d.names {
		top.Properties[name] = anything("properties", name)
	}
	maps.Copy(top.Properties, root.Properties)
	if len(d.patterns) > 0 {
		top.PatternProperties = map[jsonschema.Regexp]*jsonschema.Schema{}
	}
	unsaid := maps.Clone(d.patterns)
	for re, to := range root.PatternProperties {
		delete(unsaid, re.String())
		top.PatternProperties[re] = to
	}
	for source := range unsaid {
		if re, err := e.compile(source); err == nil { // else it stands where its draft knows no patterns
			top.PatternProperties[re] = anything("patternProperties", source)
		}
	}
	top.AdditionalProperties = false
	return &top
}

// read looks into a schema that applies to all arguments together.
func (d *declaration) read(node any, root map[string]any, seen map[string]bool) {
	s, ok := node.(map[string]any)
	if !ok || d.open {
		return
	}
	for _, key := range []string{"additionalProperties", "unevaluatedProperties"} {
		if value, has := s[key]; has && value != false {
			d.open = true
		}
	}
	for _, key := range []string{"propertyNames", "$dynamicRef", "$recursiveRef", "enum", "const"} {
		if _, has := s[key]; has {
			d.open = true
		}
	}
	d.take(s)
	if ref, ok := s["$ref"].(string); ok {
		d.follow(ref, root, seen)
	}
	for _, inner := range inPlaceIn(s) {
		d.read(inner, root, seen)
	}
}

// take takes the names that a schema says itself.
func (d *declaration) take(s map[string]any) {
	if properties, has := s["properties"].(map[string]any); has {
		d.said = true
		for name := range properties {
			d.names[name] = true
		}
	}
	if patterns, has := s["patternProperties"].(map[string]any); has {
		d.said = true
		for pattern := range patterns {
			d.patterns[pattern] = true
		}
	}
	for _, name := range listOf(s["required"]) {
		if name, ok := name.(string); ok {
			d.names[name] = true
		}
	}
}

// follow looks into what a reference within the document leads to; one that is not
// a JSON pointer may lead anywhere.
func (d *declaration) follow(ref string, root map[string]any, seen map[string]bool) {
	target, found := referredTo(root, ref)
	switch {
	case !found || len(seen) > maxInPlace:
		d.open = true
	case !seen[ref]:
		seen[ref] = true
		d.read(target, root, seen)
	}
}

// inPlaceIn lists what a schema applies, or may apply, to the value itself.
func inPlaceIn(s map[string]any) []any {
	list := []any{s["if"], s["then"], s["else"]}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list = append(list, listOf(s[key])...)
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		byName, _ := s[key].(map[string]any)
		list = slices.AppendSeq(list, maps.Values(byName))
	}
	return list
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}
