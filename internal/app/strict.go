package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// strictUnsupported are the JSON Schema keywords that the strict modes of
// providers (OpenAI structured outputs, Anthropic strict tool use) reject or
// ignore. Sidecall enforces them all the same; the model is just not held to
// them while it writes.
var strictUnsupported = map[string]bool{
	"allOf": true, "not": true, "if": true, "then": true, "else": true, "oneOf": true,
	"dependentRequired": true, "dependentSchemas": true, "patternProperties": true, "propertyNames": true,
	"minProperties": true, "maxProperties": true, "contains": true, "minContains": true, "maxContains": true,
	"uniqueItems": true, "unevaluatedProperties": true, "unevaluatedItems": true, "minLength": true, "maxLength": true,
}

// strictDrops lists the keywords of a schema that strict modes do not keep,
// each with its JSON pointer, sorted.
func strictDrops(schema []byte) []string {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil // a schema that is no JSON has been reported as an error
	}
	var found []string
	walkSchema(root, "", &found)
	return found
}

func walkSchema(node any, pointer string, found *[]string) {
	object, ok := node.(map[string]any)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, at := object[key], pointer+"/"+key
		if strictUnsupported[key] {
			*found = append(*found, fmt.Sprintf("%q at %s", key, at))
		}
		switch key {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			if members, ok := value.(map[string]any); ok {
				for _, name := range slices.Sorted(maps.Keys(members)) {
					walkSchema(members[name], at+"/"+name, found)
				}
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			if branches, ok := value.([]any); ok {
				for i, branch := range branches {
					walkSchema(branch, fmt.Sprintf("%s/%d", at, i), found)
				}
			}
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames":
			walkSchema(value, at, found)
		}
	}
}
