package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// edge leads from a schema to one that it applies: to the same value (slot is
// inPlace), to a member, or to items.
type edge struct {
	to   *jsonschema.Schema
	slot slot
	// name is the property; index the position in prefixItems.
	name  string
	index int
}

type slot uint8

const (
	inPlace     slot = iota // $ref, allOf, anyOf, if, then, dependentSchemas, ...
	property                // properties
	anyProperty             // patternProperties, additionalProperties, unevaluatedProperties
	prefixItem              // prefixItems
	anyItem                 // items, additionalItems, unevaluatedItems, contains
	memberName              // propertyNames
)

// edges lists what s applies, in no particular order.
func edges(s *jsonschema.Schema) []edge {
	var out []edge
	add := func(to *jsonschema.Schema, e edge) {
		if to != nil {
			e.to = to
			out = append(out, e)
		}
	}
	for _, to := range inPlaceSchemas(s) {
		out = append(out, edge{to: to, slot: inPlace})
	}
	for name, to := range s.Properties {
		add(to, edge{slot: property, name: name})
	}
	for _, to := range s.PatternProperties {
		add(to, edge{slot: anyProperty})
	}
	add(asSchema(s.AdditionalProperties), edge{slot: anyProperty})
	add(s.UnevaluatedProperties, edge{slot: anyProperty})
	add(namesOf(s), edge{slot: memberName})
	for i, to := range s.PrefixItems {
		add(to, edge{slot: prefixItem, index: i})
	}
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		for i, to := range list {
			add(to, edge{slot: prefixItem, index: i})
		}
	}
	add(asSchema(s.Items), edge{slot: anyItem})
	add(s.Items2020, edge{slot: anyItem})
	add(asSchema(s.AdditionalItems), edge{slot: anyItem})
	add(s.UnevaluatedItems, edge{slot: anyItem})
	add(s.Contains, edge{slot: anyItem})
	return out
}

// inPlaceSchemas lists what s applies, or may apply, to the value itself.
func inPlaceSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, to := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		out = appendSchema(out, to)
	}
	if s.DynamicRef != nil {
		out = appendSchema(out, s.DynamicRef.Ref)
	}
	out = slices.Concat(out, s.AllOf, s.AnyOf, s.OneOf)
	for _, to := range s.DependentSchemas {
		out = append(out, to)
	}
	for _, dep := range s.Dependencies {
		out = appendSchema(out, asSchema(dep))
	}
	return out
}

// asSchema is the schema in a field of the library that may hold other things;
// nil when it holds one of those.
func asSchema(v any) *jsonschema.Schema {
	s, _ := v.(*jsonschema.Schema)
	return s
}

// steps lists the schemas that s itself applies to the member or item token of
// its value parent.
func steps(s *jsonschema.Schema, token string, parent any) []*jsonschema.Schema {
	if _, isArray := parent.([]any); isArray {
		return itemSteps(s, token)
	}
	var out []*jsonschema.Schema
	for re, to := range s.PatternProperties {
		if re.MatchString(token) {
			out = append(out, to)
		}
	}
	inOrder(out)
	if to := s.Properties[token]; to != nil {
		out = slices.Insert(out, 0, to)
	}
	if len(out) == 0 {
		out = appendSchema(out, asSchema(s.AdditionalProperties))
	}
	if len(out) == 0 {
		out = appendSchema(out, s.UnevaluatedProperties)
	}
	return out
}

// inOrder sorts what a map held by its place in the schema, so that the same
// call is always answered in the same words.
func inOrder(list []*jsonschema.Schema) {
	slices.SortFunc(list, func(a, b *jsonschema.Schema) int { return strings.Compare(a.Location, b.Location) })
}

func itemSteps(s *jsonschema.Schema, token string) []*jsonschema.Schema {
	i, err := strconv.Atoi(token)
	if err != nil {
		return nil
	}
	prefix := s.PrefixItems
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		prefix = list
	}
	if i < len(prefix) {
		return []*jsonschema.Schema{prefix[i]}
	}
	var out []*jsonschema.Schema
	for _, to := range []*jsonschema.Schema{asSchema(s.Items), s.Items2020, asSchema(s.AdditionalItems), s.UnevaluatedItems} {
		out = appendSchema(out, to)
	}
	return out
}

func appendSchema(list []*jsonschema.Schema, s *jsonschema.Schema) []*jsonschema.Schema {
	if s == nil {
		return list
	}
	return append(list, s)
}
