package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// schemaID is where the schema is published: beside this file.
const schemaID = "https://github.com/sidecall/sidecall/internal/config/schema.json"

// jsonSchema returns the JSON Schema (draft 2020-12) of the config file, made
// from the same tags that the decoder reads. Editors use it for completion; it
// accepts every file that Parse accepts, and says nothing of references
// between parts of a file. schema.json holds the same bytes.
func jsonSchema() []byte {
	defs := map[string]any{}
	root := structSchema(reflect.TypeFor[Config](), defs)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = schemaID
	root["title"] = "Sidecall configuration"
	root["$defs"] = defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic("config: schema: " + err.Error()) // maps of strings: cannot be
	}
	return out.Bytes()
}

// structSchema describes a mapping with known keys, and adds the structs in it
// to defs.
func structSchema(t reflect.Type, defs map[string]any) map[string]any {
	s := shapeOf(t)
	properties := map[string]any{}
	var required []string
	for _, f := range s.fields {
		property := valueSchema(f.typ, f, defs)
		property["description"] = f.doc
		if f.def != "" {
			property["default"] = f.defaultJSON()
		}
		properties[f.key] = property
		if f.required {
			required = append(required, f.key)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	for _, group := range s.groups {
		out["oneOf"] = haveOne(group)
	}
	beside := map[string]any{}
	for _, f := range s.fields {
		if f.with != nil {
			beside[f.key] = map[string]any{"anyOf": haveOne(f.with)}
		}
	}
	if len(beside) > 0 {
		out["dependentSchemas"] = beside
	}
	if required == nil && s.groups == nil {
		out["type"] = orNull("object")
	}
	return out
}

// haveOne are the schemas of mappings that have one of the keys.
func haveOne(keys []string) []any {
	branches := make([]any, len(keys))
	for i, key := range keys {
		branches[i] = map[string]any{"required": []string{key}}
	}
	return branches
}

// orNull lets a key be written without anything after it.
func orNull(kind string) []string { return []string{kind, "null"} }

// valueSchema describes one value, as decoder.value decodes it.
func valueSchema(t reflect.Type, f *field, defs map[string]any) map[string]any {
	if sc := scalars[t]; sc != nil {
		return f.scalarSchema(sc)
	}
	switch t {
	case reflect.TypeFor[Text](), reflect.TypeFor[Path](), reflect.TypeFor[Secret]():
		return f.stringSchema()
	case reflect.TypeFor[JSON]():
		return map[string]any{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return valueSchema(t.Elem(), f, defs)
	case reflect.Slice:
		out := map[string]any{"type": orNull("array"), "items": valueSchema(t.Elem(), f.item(), defs)}
		if f.items > 0 {
			out["type"], out["minItems"] = "array", f.items
		}
		return out
	case reflect.Map:
		out := map[string]any{"type": orNull("object"), "additionalProperties": valueSchema(t.Elem(), f.item(), defs)}
		if f.keys != nil {
			out["propertyNames"] = map[string]any{"pattern": f.keys.pattern}
		}
		return out
	default:
		return formsSchema(t, defs)
	}
}

// formsSchema describes a struct, which may be written in several forms.
func formsSchema(t reflect.Type, defs map[string]any) map[string]any {
	shape := shapeOf(t)
	var forms []any
	for _, f := range shape.forms {
		forms = append(forms, valueSchema(f.typ, f, defs))
	}
	if forms != nil && shape.keys == nil {
		return map[string]any{"anyOf": forms}
	}
	name := t.Name()
	if defs[name] == nil {
		defs[name] = true // ends the recursion of a type that holds itself
		defs[name] = structSchema(t, defs)
	}
	keys := map[string]any{"$ref": "#/$defs/" + name}
	if forms != nil {
		return map[string]any{"anyOf": append(forms, keys)}
	}
	return keys
}

// scalarSchema describes a scalar under the rules of its field.
func (f *field) scalarSchema(sc *scalar) map[string]any {
	if sc.text {
		return f.stringSchema()
	}
	out := maps.Clone(sc.schema)
	if kind := out["type"]; kind != "integer" && kind != "number" {
		return out // bounds of durations and sizes have no place in JSON Schema
	}
	if low, ok := sc.bound(f.min); ok {
		out["minimum"] = low
	}
	if high, ok := sc.bound(f.max); ok {
		out["maximum"] = high
	}
	return out
}

// defaultJSON is the default as JSON has it.
func (f *field) defaultJSON() any {
	text, ok := jsonScalar(textNode(f.def))
	if !ok {
		text = strconv.Quote(f.def)
	}
	if f.typ.Kind() == reflect.Slice {
		return []any{json.RawMessage(text)}
	}
	return json.RawMessage(text)
}

// stringSchema describes text under the rules of its field.
func (f *field) stringSchema() map[string]any {
	out := map[string]any{"type": "string"}
	switch {
	case f.enum != nil:
		out["enum"] = f.enum
	case f.format != nil:
		out["pattern"] = f.format.pattern
	case f.required:
		out["minLength"] = 1
	}
	return out
}

// TestPublishedSchema keeps schema.json equal to the types it is made from.
func TestPublishedSchema(t *testing.T) {
	golden(t, "schema.json", string(jsonSchema()))
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	var schema struct {
		Properties map[string]struct{ Description string }
		Defs       map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(jsonSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Properties) < 10 || len(schema.Defs) < 15 {
		t.Fatalf("%d keys and %d blocks: the schema is not whole", len(schema.Properties), len(schema.Defs))
	}
	for name, def := range schema.Defs {
		for key, property := range def.Properties {
			if !strings.HasSuffix(property.Description, ".") {
				t.Errorf("%s.%s: description %q is no sentence", name, key, property.Description)
			}
		}
	}
}
