package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// sound reports whether a schema is certainly in order, so that the library can
// be spared until the tool is first called. The library takes nine times as
// long, which a start feels: with 1,000 tools it is ready after 0.44 to 0.52 s
// instead of 0.12 to 0.18 s, where 0.2 s are promised, and keeps 87 MiB instead
// of 67 (2 cores; BenchmarkCompileCorpus beside BenchmarkPrepareCorpus, and the
// end-to-end start with a thousand tools).
// The check is one-sided. It knows the plain keywords, well typed, in the
// drafts where they mean the same, and local references; whatever else it meets
// makes it answer no, and the library decides at once. The patterns it has met
// are in found.
func sound(doc any, found patterns) bool {
	root, ok := doc.(map[string]any)
	if !ok {
		return false
	}
	c := soundness{root: doc, draft: "2020", found: found}
	if v, has := root["$schema"]; has {
		uri, _ := v.(string)
		if c.draft, ok = plainDrafts[strings.TrimSuffix(uri, "#")]; !ok {
			return false
		}
	}
	if !c.object(root, 0) {
		return false
	}
	w := written{root: doc, refs: map[string]int{}}
	w.each(doc)
	return w.most <= maxPlaces
}

var plainDrafts = map[string]string{
	"http://json-schema.org/draft-07/schema":       "07",
	"https://json-schema.org/draft/2020-12/schema": "2020",
	"https://json-schema.org/draft/2019-09/schema": "2019",
}

type soundness struct {
	root  any
	draft string
	found patterns
}

func (c soundness) schema(v any, depth int) bool {
	switch v := v.(type) {
	case bool:
		return true
	case map[string]any:
		return depth < 64 && c.object(v, depth)
	}
	return false
}

func (c soundness) object(s map[string]any, depth int) bool {
	for keyword, v := range s {
		if !c.keyword(keyword, v, depth+1) {
			return false
		}
	}
	return true
}

func (c soundness) keyword(keyword string, v any, depth int) bool {
	switch keyword {
	case "$schema":
		return depth == 1
	case "title", "description", "$comment", "format", "contentEncoding", "contentMediaType":
		return isString(v)
	case "pattern":
		return c.isPattern(v)
	case "readOnly", "writeOnly", "uniqueItems", "deprecated":
		return isBool(v)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return isPlainNumber(v)
	case "multipleOf":
		r := rational(v)
		return r != nil && r.Sign() > 0
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		return isCount(v)
	case "required":
		return isNameList(v)
	case "type":
		return isTypes(v)
	case "enum", "examples":
		return isArray(v)
	case "const", "default", "example":
		return true
	case "$ref":
		return c.reference(v)
	default:
		return c.applicator(keyword, v, depth)
	}
}

// applicator checks the keywords that hold schemas.
func (c soundness) applicator(keyword string, v any, depth int) bool {
	switch keyword {
	case "properties", "$defs", "definitions", "dependentSchemas":
		return c.members(v, depth, nil)
	case "patternProperties":
		return c.members(v, depth, func(name string) bool { return c.isPattern(name) })
	case "dependentRequired":
		obj, ok := v.(map[string]any)
		for _, list := range obj {
			ok = ok && isNameList(list)
		}
		return ok
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return c.list(v, depth)
	case "items":
		if isArray(v) {
			return c.draft != "2020" && c.list(v, depth)
		}
		return c.schema(v, depth)
	case "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems":
		return c.schema(v, depth)
	default:
		return !strings.HasPrefix(keyword, "$") && keyword != "id" && keyword != "dependencies" && keyword != "contentSchema"
	}
}

func (c soundness) members(v any, depth int, name func(string) bool) bool {
	obj, ok := v.(map[string]any)
	for key, sub := range obj {
		if name != nil && !name(key) || !c.schema(sub, depth) {
			return false
		}
	}
	return ok
}

func (c soundness) list(v any, depth int) bool {
	arr, ok := v.([]any)
	for _, sub := range arr {
		if !c.schema(sub, depth) {
			return false
		}
	}
	return ok && len(arr) > 0
}

// reference accepts #/$defs/X and #/definitions/X that are there, and #.
func (c soundness) reference(v any) bool {
	ref, ok := v.(string)
	if !ok || ref == "#" {
		return ok
	}
	pointer, local := strings.CutPrefix(ref, "#/")
	if !local || strings.ContainsAny(pointer, "%~") {
		return false
	}
	l := location(strings.Split(pointer, "/"))
	if len(l) != 2 || l[0] != "$defs" && l[0] != "definitions" {
		return false
	}
	_, there := l.at(c.root)
	return there
}

func (c soundness) isPattern(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	_, err := c.found.read(s)
	return err == nil
}

func isPlainNumber(v any) bool {
	_, ok := v.(json.Number)
	return ok
}

// isCount accepts integers that an int holds.
func isCount(v any) bool {
	n, ok := v.(json.Number)
	return ok && len(n) <= 9 && strings.Trim(n.String(), "0123456789") == ""
}

// isNameList accepts an array of different strings.
func isNameList(v any) bool {
	arr, ok := v.([]any)
	seen := make(map[string]bool, len(arr))
	for _, one := range arr {
		name, isName := one.(string)
		if !isName || seen[name] {
			return false
		}
		seen[name] = true
	}
	return ok
}

// isTypes accepts the name of a type, or an array of different ones.
func isTypes(v any) bool {
	if name, ok := v.(string); ok {
		return slices.Contains(typeOrder, name)
	}
	if !isNameList(v) || len(v.([]any)) == 0 {
		return false
	}
	return !slices.ContainsFunc(v.([]any), func(one any) bool { return !slices.Contains(typeOrder, one.(string)) })
}
