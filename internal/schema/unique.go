package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// uniqueItems is the keyword, with one look at each item: items are the same whose
// canonical texts are. The library compares those in pairs that it has the same hash for,
// and whoever writes arguments can give one to all of them.
type uniqueItems struct{}

// compareOnce lets s have its items compared by uniqueItems.
func compareOnce(s *jsonschema.Schema) {
	if s.UniqueItems {
		s.UniqueItems, s.Extensions = false, append(s.Extensions, uniqueItems{})
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
