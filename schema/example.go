package schema

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maker makes valid values for schemas: those of the author first (examples,
// default, const, enum), else values of its own. Whatever it returns has been
// checked; when it finds nothing that fits it says so.
type maker struct {
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
		if v != nil && fits(list, v) {
			return v, true
		}
	}
	if branches := openUnion(list); branches != nil {
		return m.fromUnion(list, branches, depth)
	}
	for _, typ := range wanted(list) {
		for _, v := range m.ofType(typ, list, depth) {
			if fits(list, v) {
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
	m := &maker{ix: s.index(), budget: 50 * makerBudget, full: full}
	list := nodes{}.expand(nil, s.root(), apparent{})
	if v, ok := m.make(list, 0); ok && isObject(v) {
		return v.(map[string]any), true
	}
	for _, v := range m.objects(list, 0) { // a schema that does not say that it wants an object
		if fits(list, v) {
			return v.(map[string]any), true
		}
	}
	return nil, false
}

// openUnion returns the branches of the first union in list of which none has
// been chosen.
func openUnion(list []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range list {
		for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
			chosen := slices.ContainsFunc(union, func(b *jsonschema.Schema) bool { return slices.Contains(list, b) })
			if len(union) > 0 && !chosen {
				return union
			}
		}
	}
	return nil
}

func (m *maker) fromUnion(list, branches []*jsonschema.Schema, depth int) (any, bool) {
	ordered := slices.Clone(branches)
	slices.SortStableFunc(ordered, func(a, b *jsonschema.Schema) int { return nullLast(a) - nullLast(b) })
	for _, b := range ordered {
		if v, ok := m.make(nodes{}.expand(slices.Clone(list), b, apparent{}), depth+1); ok {
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

// typeOrder is the order in which types are tried.
var typeOrder = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

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
		if p, ok := s.Pattern.(*pattern); ok {
			for _, text := range examplesOf(p, shortest) {
				out = append(out, text)
			}
		}
	}
	text := "text"
	if shortest > len(text) {
		text = strings.Repeat("text ", min(shortest, 2000)/5) + strings.Repeat("t", min(shortest, 2000)%5)
	}
	if longest >= 0 && longest < len(text) {
		text = text[:longest]
	}
	return append(out, text, "")
}

func (m *maker) arrays(list []*jsonschema.Schema, depth int) []any {
	least, most := 1, -1
	var contains *jsonschema.Schema
	for _, s := range list {
		if s.MinItems != nil {
			least = max(least, *s.MinItems)
		}
		if s.MaxItems != nil && (most < 0 || *s.MaxItems < most) {
			most = *s.MaxItems
		}
		if s.Contains != nil {
			contains = s.Contains
		}
	}
	if most >= 0 {
		least = min(least, most)
	}
	if least > 20 {
		return nil
	}
	arr := m.grow([]any{}, least, list, depth)
	out := []any{arr}
	if contains != nil {
		if v, ok := m.make(nodes{}.expand(nil, contains, apparent{}), depth+1); ok {
			out = append(out, []any{v}, append(slices.Clone(arr), v))
		}
	}
	return append(out, []any{})
}

// grow appends example items until arr has n. The items differ where they can,
// for uniqueItems.
func (m *maker) grow(arr []any, n int, list []*jsonschema.Schema, depth int) []any {
	arr = slices.Clone(arr)
	for len(arr) < n {
		token := strconv.Itoa(len(arr))
		var here []*jsonschema.Schema
		for _, s := range list {
			for _, to := range steps(s, token, arr) {
				here = nodes{}.expand(here, to, apparent{})
			}
		}
		v, ok := m.make(here, depth+1)
		if !ok {
			return arr
		}
		for _, other := range m.variants(v, here) {
			if !containsValue(arr, other) && fits(here, other) {
				v = other
				break
			}
		}
		arr = append(arr, v)
	}
	return arr
}

// variants are v and values like it.
func (m *maker) variants(v any, list []*jsonschema.Schema) []any {
	out := append([]any{v}, m.given(list)...)
	for i := int64(2); i < 12; i++ {
		switch v := v.(type) {
		case string:
			out = append(out, v+strconv.FormatInt(i, 10))
		case json.Number:
			if r := rational(v); r != nil {
				out = append(out, toNumber(r.Add(r, big.NewRat(i-1, 1))), toNumber(new(big.Rat).Sub(rational(v), big.NewRat(i-1, 1))))
			}
		}
	}
	if _, ok := v.(string); ok {
		for _, s := range list {
			if p, ok := s.Pattern.(*pattern); ok {
				for _, text := range examplesOf(p, 12) {
					out = append(out, text)
				}
			}
		}
	}
	return append(out, true, false)
}

func containsValue(arr []any, v any) bool {
	want := compact(v)
	return slices.ContainsFunc(arr, func(one any) bool { return compact(one) == want })
}

func (m *maker) objects(list []*jsonschema.Schema, depth int) []any {
	if m.full {
		m.full = false
		least := m.objects(list, depth)
		m.full = true
		return append([]any{m.object(list, depth, math.MaxInt)}, least...)
	}
	return []any{m.object(list, depth, 0)}
}

// object makes an object with the required members, and optional ones until it
// has least.
func (m *maker) object(list []*jsonschema.Schema, depth, least int) map[string]any {
	obj := map[string]any{}
	var optional []string
	for _, s := range list {
		for _, name := range s.Required {
			m.put(obj, name, list, depth)
		}
		if s.MinProperties != nil {
			least = max(least, *s.MinProperties)
		}
		optional = append(optional, sortedNames(s.Properties)...)
	}
	for _, name := range optional {
		if len(obj) >= least {
			break
		}
		m.put(obj, name, list, depth)
	}
	for i := 1; len(obj) < least && least <= 20 && i <= 20; i++ {
		m.put(obj, "key"+strconv.Itoa(i), list, depth)
	}
	m.complete(obj, list, depth)
	return obj
}

// put sets a member of obj to a value that fits, when there is one.
func (m *maker) put(obj map[string]any, name string, list []*jsonschema.Schema, depth int) {
	if _, has := obj[name]; has {
		return
	}
	var here []*jsonschema.Schema
	for _, s := range list {
		for _, to := range steps(s, name, obj) {
			here = nodes{}.expand(here, to, apparent{})
		}
	}
	if v, ok := m.make(here, depth+1); ok {
		obj[name] = v
	}
}

// complete changes what conditions (if, dependentRequired) want of obj as it
// is: it adds members and makes others anew.
func (m *maker) complete(obj map[string]any, list []*jsonschema.Schema, depth int) {
	for range 4 {
		if fits(list, obj) {
			return
		}
		all := list
		for _, s := range list {
			for _, to := range (nodes{}).applied(s, apparent{value: obj, present: true}) {
				all = nodes{}.expand(all, to, apparent{value: obj, present: true})
			}
		}
		var missing []string
		for _, s := range list {
			var invalid *jsonschema.ValidationError
			if errors.As(s.Validate(obj), &invalid) {
				missing = missingMembers(invalid, missing)
			}
		}
		for _, name := range sortedNames(obj) {
			if !fits(memberSchemas(all, name), obj[name]) {
				delete(obj, name)
				missing = append(missing, name)
			}
		}
		for _, name := range missing {
			m.put(obj, name, all, depth)
		}
	}
}

// missingMembers lists the members that the value as a whole lacks.
func missingMembers(e *jsonschema.ValidationError, out []string) []string {
	if len(e.InstanceLocation) == 0 {
		switch k := e.ErrorKind.(type) {
		case *kind.Required:
			out = append(out, k.Missing...)
		case *kind.DependentRequired:
			out = append(out, k.Missing...)
		case *kind.Dependency:
			out = append(out, k.Missing...)
		}
	}
	for _, cause := range e.Causes {
		out = missingMembers(cause, out)
	}
	return out
}

// bounds are what a number must keep to.
type bounds struct {
	low, high         *big.Rat
	lowOpen, highOpen bool
	step              *big.Rat
}

func boundsOf(list []*jsonschema.Schema, integer bool) bounds {
	var b bounds
	if integer {
		b.step = big.NewRat(1, 1)
	}
	for _, s := range list {
		b.raise(s.Minimum, false)
		b.raise(s.ExclusiveMinimum, true)
		b.lower(s.Maximum, false)
		b.lower(s.ExclusiveMaximum, true)
		if s.MultipleOf != nil {
			b.step = s.MultipleOf
		}
	}
	return b
}

func (b *bounds) raise(to *big.Rat, open bool) {
	if to != nil && (b.low == nil || to.Cmp(b.low) > 0 || to.Cmp(b.low) == 0 && open) {
		b.low, b.lowOpen = to, open
	}
}

func (b *bounds) lower(to *big.Rat, open bool) {
	if to != nil && (b.high == nil || to.Cmp(b.high) < 0 || to.Cmp(b.high) == 0 && open) {
		b.high, b.highOpen = to, open
	}
}

// numbersNear lists numbers that may keep to b: those near the one received,
// then the ends, then small ones. The caller checks them.
func numbersNear(received *big.Rat, b bounds) []any {
	var out []any
	add := func(r *big.Rat) { out = append(out, toNumber(r)) }
	around := func(r *big.Rat) {
		if b.step == nil {
			add(r)
			return
		}
		down := floorTo(r, b.step)
		up := new(big.Rat).Add(down, b.step)
		if new(big.Rat).Sub(r, down).Cmp(new(big.Rat).Sub(up, r)) <= 0 {
			down, up = up, down // nearest last in, first out below
		}
		add(up)
		add(down)
	}
	if received != nil && (b.low == nil || received.Cmp(b.low) > 0) && (b.high == nil || received.Cmp(b.high) < 0) {
		around(received)
	}
	ends := func(end *big.Rat, open bool, inward int64) {
		if end == nil {
			return
		}
		if !open {
			around(end)
		}
		step := big.NewRat(1, 1)
		if b.step != nil {
			step = b.step
		}
		move := new(big.Rat).Mul(step, big.NewRat(inward, 1))
		around(new(big.Rat).Add(end, move))
		around(new(big.Rat).Add(end, move.Mul(move, big.NewRat(1, 100))))
	}
	if received != nil && b.high != nil && received.Cmp(b.high) >= 0 {
		ends(b.high, b.highOpen, -1)
	}
	ends(b.low, b.lowOpen, 1)
	if b.low == nil {
		around(big.NewRat(1, 1))
		add(new(big.Rat))
	}
	ends(b.high, b.highOpen, -1)
	if b.low != nil && b.high != nil {
		middle := new(big.Rat).Add(b.low, b.high)
		around(middle.Quo(middle, big.NewRat(2, 1)))
	}
	return out
}

// floorTo is the largest multiple of step that is not above r.
func floorTo(r, step *big.Rat) *big.Rat {
	q := new(big.Rat).Quo(r, step)
	n := new(big.Int).Div(q.Num(), q.Denom()) // Euclidean: floor, as the denominator is positive
	return new(big.Rat).Mul(new(big.Rat).SetInt(n), step)
}

// cut is the first n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}
