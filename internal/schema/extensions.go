package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// uniqueItems is the keyword, with one look at each item: items are the same whose
// canonical texts are. The library compares those in pairs that it has the same hash for,
// and whoever writes arguments can give one to all of them.
type uniqueItems struct{}

// takeOver lets uniqueItems and nameRule judge in the place of the library.
func takeOver(s *jsonschema.Schema) {
	if s.UniqueItems {
		s.UniqueItems, s.Extensions = false, append(s.Extensions, uniqueItems{})
	}
	if s.PropertyNames != nil {
		s.PropertyNames, s.Extensions = nil, append(s.Extensions, nameRule{s.PropertyNames})
	}
}

// Validate implements jsonschema.SchemaExt.
func (uniqueItems) Validate(ctx *jsonschema.ValidatorContext, v any) {
	arr, _ := v.([]any)
	first := make(map[string]int, len(arr))
	for i, item := range arr {
		text, err := appendCanonical(nil, item, 0)
		if err != nil {
			continue // such arguments cannot be sent
		}
		if j, known := first[string(text)]; known {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{j, i}})
			return
		}
		first[string(text)] = i
	}
}

// nameRule is propertyNames. The library's own error shares the memory of its place with
// those of later errors; one of an extension has a place of its own.
type nameRule struct{ names *jsonschema.Schema }

// namesOf is what s says of the names of members; nil where it says nothing.
func namesOf(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	for _, ext := range s.Extensions {
		if rule, ok := ext.(nameRule); ok {
			return rule.names
		}
	}
	return s.PropertyNames
}

// Validate implements jsonschema.SchemaExt.
func (r nameRule) Validate(ctx *jsonschema.ValidatorContext, v any) {
	obj, _ := v.(map[string]any)
	for name := range obj {
		if r.names.Validate(name) != nil {
			ctx.AddError(&kind.PropertyNames{Property: name})
		}
	}
}
