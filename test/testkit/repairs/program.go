package repairs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// Program edits rejected arguments as the violations say, in their order, and
// returns the arguments to send next. It knows the grammar of the five fields
// and nothing of the tool. args is not changed.
func Program(args map[string]any, violations []tool.Error) map[string]any {
	p := &program{root: copyOf(args)}
	for _, v := range violations {
		p.apply(v)
	}
	p.removeItems()
	if out, ok := p.root.(map[string]any); ok {
		return out
	}
	return args
}

type program struct {
	root any
	// removals are items to take out at the end, when no index is needed any
	// more.
	removals []removal
}

type removal struct {
	array path
	index int
}

// apply makes the edit that one violation asks for.
func (p *program) apply(v tool.Error) {
	at, ok := parsePath(v.Field)
	if !ok {
		return
	}
	keyword, value := parseConstraint(v.Constraint)
	meant, hasMeant := phrase(v.Hint)
	example, hasExample := exampleIn(v.Hint)
	switch keyword {
	case "additionalProperties":
		p.unknown(at, meant, hasMeant)
	case "propertyNames":
		p.unknown(at, meant, hasMeant)
	case "required":
		switch {
		case hasMeant && p.renameSibling(at, meant):
		case hasExample:
			p.set(at, example)
		default:
			p.set(at, fromSchema(value))
		}
	case "maxContains":
		p.removals = append(p.removals, removal{at[:len(at)-1], at[len(at)-1].index})
	default:
		switch {
		case hasMeant:
			p.set(at, meant)
		case hasExample:
			p.set(at, example)
		default:
			p.set(at, p.adjusted(at, keyword, value))
		}
	}
}

// unknown renames or removes a property that may not have its name.
func (p *program) unknown(at path, meant string, rename bool) {
	parent, ok := at[:len(at)-1].get(p.root)
	obj, isObject := parent.(map[string]any)
	if !ok || !isObject {
		return
	}
	name := at[len(at)-1].name
	v := obj[name]
	delete(obj, name)
	if rename {
		obj[meant] = v
	}
}

// renameSibling gives a missing property the value of the sibling that is spelt
// most like it.
func (p *program) renameSibling(at path, meant string) bool {
	parent, _ := at[:len(at)-1].get(p.root)
	obj, ok := parent.(map[string]any)
	if !ok {
		return false
	}
	near := tool.Closest(meant, slices.Sorted(maps.Keys(obj)))
	if near == "" {
		return false
	}
	obj[meant] = obj[near]
	delete(obj, near)
	return true
}

func (p *program) set(at path, v any) { p.root = at.set(p.root, v) }

func (p *program) removeItems() {
	sort.Slice(p.removals, func(i, j int) bool { return p.removals[i].index > p.removals[j].index })
	for _, r := range p.removals {
		if arr, _ := r.array.get(p.root); arr != nil {
			if list, ok := arr.([]any); ok && r.index < len(list) {
				p.set(r.array, slices.Delete(slices.Clone(list), r.index, r.index+1))
			}
		}
	}
}

// adjusted changes the value at a place only as far as the constraint asks.
func (p *program) adjusted(at path, keyword string, value any) any {
	got, _ := at.get(p.root)
	n, _ := strconv.Atoi(text(value))
	switch keyword {
	case "const":
		return value
	case "enum":
		if list, ok := value.([]any); ok && len(list) > 0 {
			return list[0]
		}
	case "type":
		return converted(got, value)
	case "minimum", "maximum", "multipleOf":
		return value
	case "maxLength":
		if s := []rune(text(got)); len(s) > n {
			return string(s[:n])
		}
	case "minLength":
		return text(got) + strings.Repeat("x", max(0, n-len([]rune(text(got)))))
	case "maxItems":
		if arr, ok := got.([]any); ok && len(arr) > n {
			return arr[:n]
		}
	case "uniqueItems":
		return distinct(got)
	case "contains":
		if arr, ok := got.([]any); ok {
			return append(slices.Clone(arr), fromSchema(value))
		}
	case "not", "oneOf":
		return withoutOne(got, value)
	}
	return got
}

// converted makes a value of a wanted type of another one.
func converted(got, want any) any {
	types, ok := want.([]any)
	if !ok {
		types = []any{want}
	}
	if s, ok := got.(string); ok {
		var parsed any
		if decode(s, &parsed) && slices.Contains(types, any(typeOf(parsed))) {
			return parsed
		}
	}
	if slices.Contains(types, any("array")) {
		return []any{got}
	}
	return fromSchema(map[string]any{"type": want})
}

// distinct is an array without repetitions.
func distinct(v any) any {
	arr, ok := v.([]any)
	if !ok {
		return v
	}
	seen := map[string]bool{}
	var out []any
	for _, one := range arr {
		if key := encode(one); !seen[key] {
			seen[key] = true
			out = append(out, one)
		}
	}
	return out
}

// withoutOne leaves out the last of the names that must not stand together:
// not: {"required":["a","b"]}, or oneOf: [{"required":["a"]},{"required":["b"]}].
func withoutOne(got, value any) any {
	obj, ok := got.(map[string]any)
	if !ok {
		return got
	}
	var last map[string]any
	switch value := value.(type) {
	case map[string]any:
		last = value
	case []any:
		if len(value) > 0 {
			last, _ = value[len(value)-1].(map[string]any)
		}
	}
	names, _ := last["required"].([]any)
	if len(names) > 0 {
		delete(obj, text(names[len(names)-1]))
	}
	return obj
}

// fromSchema makes a value for the shortened schema of a missing property.
func fromSchema(v any) any {
	s, _ := v.(map[string]any)
	if d, ok := s["default"]; ok {
		return d
	}
	if c, ok := s["const"]; ok {
		return c
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	typ := s["type"]
	if list, ok := typ.([]any); ok && len(list) > 0 {
		typ = list[0]
	}
	switch typ {
	case "integer", "number":
		if low, ok := s["minimum"]; ok {
			return low
		}
		return json.Number("1")
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		out := map[string]any{}
		members, _ := s["properties"].(map[string]any)
		for name, member := range members {
			out[name] = fromSchema(member)
		}
		return out
	case "null":
		return nil
	default:
		return "text"
	}
}

// parseConstraint splits "<keyword>: <JSON value>". A sentence has no keyword.
func parseConstraint(s string) (keyword string, value any) {
	keyword, rest, ok := strings.Cut(s, ": ")
	if !ok || strings.Contains(keyword, " ") || !decode(rest, &value) {
		return "", nil
	}
	return keyword, value
}

var meantPhrase = regexp.MustCompile(`Did you mean ("(?:[^"\\]|\\.)*")\?`)

// phrase is X of Did you mean "X"?.
func phrase(hint string) (string, bool) {
	m := meantPhrase.FindStringSubmatch(hint)
	if m == nil {
		return "", false
	}
	var s string
	err := json.Unmarshal([]byte(m[1]), &s)
	return s, err == nil
}

// exampleIn is X of e.g. X, one JSON value.
func exampleIn(hint string) (any, bool) {
	_, rest, ok := strings.Cut(hint, "e.g. ")
	if !ok {
		return nil, false
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(rest))
	dec.UseNumber()
	err := dec.Decode(&v)
	return v, err == nil
}
