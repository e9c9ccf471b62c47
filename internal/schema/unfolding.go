package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPlaces bounds the places of a schema: those at which a schema is written,
// and those at which one single value is checked: against itself, what it refers
// to, the branches of its unions, theirs. Of the latter, schemas that people write
// have a hundred or so.
const maxPlaces = 5_000

// unfolding sums over schemas as often as the library meets them, not as often as
// they are written. Twenty definitions that each refer to the next one twice
// are a kilobyte of text and a million schemas.
type unfolding struct {
	own  func(*jsonschema.Schema) int64
	next func(*jsonschema.Schema) []*jsonschema.Schema
	// again is what a schema counts where it is met within itself, and most where a sum
	// ends.
	again, most int64

	known map[*jsonschema.Schema]int64
}

// of is what s comes to, together with all that it leads to.
func (u unfolding) of(s *jsonschema.Schema) int64 {
	if n, known := u.known[s]; known {
		return n
	}
	u.known[s] = u.again
	total := min(u.own(s), u.most)
	for _, to := range u.next(s) {
		total = min(total+u.of(to), u.most)
	}
	u.known[s] = total
	return total
}

// eachSchema visits root and all that it applies, once each.
func eachSchema(root *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	seen := map[*jsonschema.Schema]bool{}
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		visit(s)
		for _, to := range targets(s) {
			walk(to)
		}
	}
	walk(root)
}

// targets lists all that s applies, wherever.
func targets(s *jsonschema.Schema) []*jsonschema.Schema {
	list := edges(s)
	out := make([]*jsonschema.Schema, len(list))
	for i, e := range list {
		out[i] = e.to
	}
	return out
}

// unboundedCheck refuses a schema against which not even one value could be
// checked in bounded time; nil when there is none such in it.
func unboundedCheck(name string, root *jsonschema.Schema) *CompileError {
	one := func(*jsonschema.Schema) int64 { return 1 }
	places := unfolding{one, inPlaceSchemas, 1, maxPlaces + 1, map[*jsonschema.Schema]int64{}}
	worst := (*jsonschema.Schema)(nil)
	eachSchema(root, func(s *jsonschema.Schema) {
		if places.of(s) > maxPlaces && (worst == nil || s.Location < worst.Location) {
			worst = s
		}
	})
	if worst == nil {
		return nil
	}
	return &CompileError{
		Tool: name, Pointer: fragment(worst.Location),
		Reason: fmt.Sprintf("one value would be checked against more than %d schemas, because references multiply", maxPlaces),
	}
}

// written counts places as unboundedCheck does, of a schema that is only read yet: most
// is the largest number of schemas that one value would meet. It may be too large, as
// examples and constants pass for schemas, never too small.
type written struct {
	root any
	refs map[string]int
	most int
}

// each counts from every object on: what a value meets begins at any of them.
func (w *written) each(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			w.each(one)
		}
	case map[string]any:
		w.most = max(w.most, w.size(v))
		for _, sub := range v {
			w.each(sub)
		}
	}
}

// size is how many schemas one value would meet from v on. Nothing is looked at that is of
// another value: what is met there has not to be complete, and would be remembered.
func (w *written) size(v any) int {
	total := 1
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			total = min(total+w.size(one), maxPlaces+1)
		}
	case map[string]any:
		for keyword, sub := range v {
			switch keyword {
			case "$ref":
				total += w.target(sub)
			case "dependentSchemas":
				members, _ := sub.(map[string]any)
				total += w.size(slices.Collect(maps.Values(members)))
			case "allOf", "anyOf", "oneOf", "not", "if", "then", "else":
				total += w.size(sub)
			}
			total = min(total, maxPlaces+1)
		}
	}
	return total
}

func (w *written) target(v any) int {
	ref, _ := v.(string)
	if n, known := w.refs[ref]; known {
		return n
	}
	w.refs[ref] = maxPlaces + 1 // within itself there is no end of it: the library says so
	to, _ := referredTo(w.root, ref)
	w.refs[ref] = w.size(to)
	return w.refs[ref]
}

// tooManyPlaces refuses a schema that is larger than one may be, before anything
// looks at it: the library needs time with the square of it, to compile it. Whatever
// a reference can make a schema of counts as one.
func tooManyPlaces(name string, doc any) *CompileError {
	if countPlaces(doc, 0) <= maxPlaces {
		return nil
	}
	return &CompileError{Tool: name, Reason: fmt.Sprintf("has more than %d places: objects and booleans, each of which may be a schema", maxPlaces)}
}

// countPlaces adds the places in v to those before.
func countPlaces(v any, before int) int {
	switch v := v.(type) {
	case bool:
		before++
	case map[string]any:
		before++
		for _, sub := range v {
			before = countPlaces(sub, before)
		}
	case []any:
		for _, sub := range v {
			before = countPlaces(sub, before)
		}
	}
	return before
}
