package schema

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// index finds compiled schemas by the location that errors carry, and their
// source text.
type index struct {
	root       *jsonschema.Schema
	byLocation map[string]*jsonschema.Schema
	doc        any
}

func newIndex(root *jsonschema.Schema, source []byte) *index {
	ix := &index{root: root, byLocation: map[string]*jsonschema.Schema{}}
	doc, f := parseValue(source, true)
	if f == nil { // it has been parsed before, when it was compiled
		ix.doc = doc
	}
	ix.add(root)
	return ix
}

func (ix *index) add(s *jsonschema.Schema) {
	if _, known := ix.byLocation[s.Location]; known {
		return
	}
	ix.byLocation[s.Location] = s
	for _, e := range edges(s) {
		ix.add(e.to)
	}
}

// source is the schema as its author wrote it; nil when it is a boolean or
// stands in one of the meta-schemas.
func (ix *index) source(s *jsonschema.Schema) map[string]any {
	v, _ := fromPointer(jsontext.Pointer(fragment(s.Location))).at(ix.doc)
	obj, _ := v.(map[string]any)
	return obj
}
