package schema

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maker makes valid values for schemas: those of the author first (examples,
// default, const, enum), else values of its own. Whatever it returns has been
// checked; when it finds nothing that fits it says so.
type maker struct {
	*looks

	ix *index
	// budget is how many schemas it may still look into, so that a recursive or
	// contradictory schema costs little.
	budget int
	// secret keeps the schema's defaults out: a default password is one.
	secret bool
	// full fills in optional members too, where the result still fits.
	full bool
}

const (
	makerBudget = 200
	makerDepth  = 8
)

// make returns a value that fits all of list, which applies to one place.
func (m *maker) make(list []*jsonschema.Schema, depth int) (any, bool) {
	if m.budget--; m.budget < 0 || depth > makerDepth {
		return nil, false
	}
	for _, v := range m.given(list) {
		if v != nil && m.fits(list, v) {
			return v, true
		}
	}
	if branches := openUnion(list); branches != nil {
		return m.fromUnion(list, branches, depth)
	}
	for _, typ := range wanted(list) {
		for _, v := range m.ofType(typ, list, depth) {
			if m.fits(list, v) {
				return v, true
			}
		}
	}
	return nil, false
}

// given lists the values that the schemas themselves name.
func (m *maker) given(list []*jsonschema.Schema) []any {
	var out []any
	for _, s := range list {
		out = append(out, s.Examples...)
		source := m.ix.source(s)
		if examples, ok := source["examples"].([]any); ok && s.Examples == nil {
			out = append(out, examples...)
		}
		if example, ok := source["example"]; ok { // OpenAPI's
			out = append(out, example)
		}
	}
	for _, s := range list {
		if s.Default != nil && !m.secret {
			out = append(out, *s.Default)
		}
	}
	for _, s := range list {
		if s.Const != nil {
			out = append(out, *s.Const)
		}
		if s.Enum != nil {
			out = append(out, s.Enum.Values[:min(len(s.Enum.Values), 100)]...)
		}
	}
	return out
}

// Example makes arguments that fit the schema: with the required properties
// only, or, when full, with the optional ones too where they go together. ok is
// false when none could be found.
func (s *Schema) Example(full bool) (args map[string]any, ok bool) {
	if s.Prepare() != nil {
		return nil, false
	}
	c, _ := s.compiled() // see above
	m := &maker{looks: c.look(context.Background()), ix: s.index(), budget: 50 * makerBudget, full: full}
	list := m.expand(nil, s.root())
	if v, ok := m.make(list, 0); ok && isObject(v) {
		return v.(map[string]any), true
	}
	for _, v := range m.objects(list, 0) { // a schema that does not say that it wants an object
		if m.fits(list, v) {
			return v.(map[string]any), true
		}
	}
	return nil, false
}

func (m *maker) fromUnion(list, branches []*jsonschema.Schema, depth int) (any, bool) {
	ordered := slices.Clone(branches)
	slices.SortStableFunc(ordered, func(a, b *jsonschema.Schema) int { return nullLast(a) - nullLast(b) })
	for _, b := range ordered {
		if v, ok := m.make(m.expand(slices.Clone(list), b), depth+1); ok {
			return v, true
		}
	}
	return nil, false
}

func nullLast(s *jsonschema.Schema) int {
	if s.Types != nil && slices.Equal(s.Types.ToStrings(), []string{"null"}) {
		return 1
	}
	return 0
}

// wanted lists the types that all of list allow, the likeliest first.
func wanted(list []*jsonschema.Schema) []string {
	out := slices.Clone(typeOrder)
	var implied []string
	for _, s := range list {
		if s.Types != nil && !s.Types.IsEmpty() {
			allowed := s.Types.ToStrings()
			out = slices.DeleteFunc(out, func(t string) bool {
				return !slices.Contains(allowed, t) && !(t == "integer" && slices.Contains(allowed, "number"))
			})
			if !slices.Contains(allowed, "integer") { // number: 1.5 shows better what is wanted, 1 fits as well
				out = slices.DeleteFunc(out, func(t string) bool { return t == "integer" })
			}
		}
		implied = append(implied, impliedTypes(s)...)
	}
	slices.SortStableFunc(out, func(a, b string) int {
		return boolInt(slices.Contains(implied, b)) - boolInt(slices.Contains(implied, a))
	})
	if len(out) == len(typeOrder) && len(implied) == 0 { // anything goes
		return append([]string{"string"}, out...)
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// impliedTypes are the types that keywords speak of where type is absent.
func impliedTypes(s *jsonschema.Schema) []string {
	switch {
	case s.Properties != nil || s.Required != nil || s.PatternProperties != nil || s.MinProperties != nil:
		return []string{"object"}
	case s.Items != nil || s.Items2020 != nil || s.PrefixItems != nil || s.MinItems != nil || s.Contains != nil:
		return []string{"array"}
	case s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil:
		return []string{"number"}
	case s.Pattern != nil || s.MinLength != nil || s.MaxLength != nil || s.Format != nil:
		return []string{"string"}
	}
	return nil
}

func (m *maker) ofType(typ string, list []*jsonschema.Schema, depth int) []any {
	switch typ {
	case "object":
		return m.objects(list, depth)
	case "array":
		return m.arrays(list, depth)
	case "string":
		return m.strings(list)
	case "integer", "number":
		return numbersNear(nil, boundsOf(list, typ == "integer"))
	case "boolean":
		return []any{true, false}
	default:
		return []any{nil}
	}
}

func (m *maker) strings(list []*jsonschema.Schema) []any {
	var out []any
	shortest, longest := 0, -1
	for _, s := range list {
		name, _ := m.ix.source(s)["format"].(string)
		if f, ok := formatOf[name]; ok && f.example != "" {
			out = append(out, f.example)
		}
		if s.MinLength != nil {
			shortest = max(shortest, *s.MinLength)
		}
		if s.MaxLength != nil && (longest < 0 || *s.MaxLength < longest) {
			longest = *s.MaxLength
		}
	}
	for _, s := range list {
		if p, ok := s.Pattern.(*expression); ok {
			for _, text := range p.Examples(shortest) {
				out = append(out, text)
			}
		}
	}
	text := "text"
	if shortest > len(text) {
		n := min(shortest, 2000)
		text = strings.Repeat("text ", n/5+1)[:n-1] + "t" // no blank at the end, which may be cut off
	}
	if longest >= 0 && longest < len(text) {
		text = text[:longest]
	}
	return append(out, text, "")
}

// cut is the first n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}
