package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// constraining are the keywords that say what a value must be, as opposed to
// what it means.
var constraining = []string{
	"type", "enum", "const", "format", "pattern", "default",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
	"minProperties", "maxProperties",
}

const (
	// maxShortSchema bounds a schema in a constraint, in bytes.
	maxShortSchema = 800
	// maxShortEnum bounds a list of values in a constraint.
	maxShortEnum = 50
)

// shortener writes the schemas that apply at one place as a single small one,
// references resolved.
type shortener struct {
	*looks

	ix     *index
	secret bool
}

// text tries less and less depth until the text is small.
func (x shortener) text(list []*jsonschema.Schema) string {
	for depth := 3; depth >= 0; depth-- {
		if text := compact(x.merge(list, depth)); len(text) <= maxShortSchema {
			return text
		}
	}
	for _, s := range list {
		if t, ok := x.ix.source(s)["type"]; ok {
			return compact(map[string]any{"type": t})
		}
	}
	return "{}"
}

func (x shortener) merge(list []*jsonschema.Schema, depth int) map[string]any {
	out := map[string]any{}
	for _, s := range list {
		source := x.ix.source(s)
		for _, keyword := range constraining {
			v, has := source[keyword]
			if _, taken := out[keyword]; !has || taken || keyword == "default" && (x.secret || v == nil) {
				continue
			}
			if arr, ok := v.([]any); ok && keyword == "enum" {
				v = arr[:min(len(arr), maxShortEnum)]
			}
			out[keyword] = v
		}
	}
	if depth > 0 {
		x.nested(out, list, depth-1)
	}
	return out
}

// nested adds the schemas of items, of required members and of the branches of
// a union that is still open.
func (x shortener) nested(out map[string]any, list []*jsonschema.Schema, depth int) {
	var itemSchemas []*jsonschema.Schema
	members := map[string]any{}
	for _, s := range list {
		for _, to := range itemSteps(s, "0") {
			itemSchemas = x.expand(itemSchemas, to)
		}
		for _, name := range s.Required {
			if !x.spend(1) {
				break
			}
			members[name] = x.merge(x.memberSchemas(list, name), depth)
		}
	}
	if len(itemSchemas) > 0 {
		out["items"] = x.merge(itemSchemas, depth)
	}
	if len(members) > 0 {
		out["properties"] = members
		out["required"] = anys(sortedNames(members))
	}
	if branches := openUnion(list); branches != nil {
		var short []any
		for _, b := range branches[:min(len(branches), 10)] {
			short = append(short, x.merge(x.expand(nil, b), depth))
		}
		out["anyOf"] = short
	}
}

// describe says in words what list wants: " (string, format date: When it
// starts)"; empty when there is nothing to say.
func (x shortener) describe(list []*jsonschema.Schema) string {
	var types []string
	text, about := "", ""
	for _, s := range list {
		source := x.ix.source(s)
		if s.Types != nil && types == nil {
			types = s.Types.ToStrings()
		}
		if name, ok := source["format"].(string); ok && text == "" {
			text = ", format " + oneLine(name, 40)
		}
		if d, ok := source["description"].(string); ok && about == "" {
			about = ": " + oneLine(d, 120)
		}
	}
	types = slices.DeleteFunc(types, func(t string) bool { return t == "null" })
	said := strings.TrimLeft(joinOr(types)+text+about, ",: ")
	if said == "" {
		return ""
	}
	return " (" + said + ")"
}

// branches shows the branches of a union that all fit.
func (x shortener) branches(s *jsonschema.Schema, fitting []int) string {
	var out []any
	for _, i := range fitting {
		if s != nil && i < len(s.OneOf) {
			out = append(out, x.outline(s.OneOf[i]))
		}
	}
	text := compact(out)
	if out == nil || len(text) > maxShortSchema {
		return compact(fitting)
	}
	return text
}

// outline is a schema shortened to its types and required names: enough to
// tell branches apart.
func (x shortener) outline(s *jsonschema.Schema) map[string]any {
	list := x.expand(nil, s)
	out := x.merge(list, 0)
	for _, one := range list {
		if len(one.Required) > 0 {
			out["required"] = anys(one.Required)
		}
	}
	return out
}

// negated is the schema that must not fit.
func (x shortener) negated(s *jsonschema.Schema) string {
	if s == nil || s.Not == nil {
		return "{}"
	}
	return compact(x.outline(s.Not))
}

// contained is the schema of an item that must be among the items.
func (x shortener) contained(s *jsonschema.Schema) string {
	if s == nil || s.Contains == nil {
		return "{}"
	}
	return x.text(x.expand(nil, s.Contains))
}
