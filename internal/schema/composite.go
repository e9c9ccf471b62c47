package schema

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

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
		if v, ok := m.make(m.expand(nil, contains), depth+1); ok {
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
				here = m.expand(here, to)
			}
		}
		v, ok := m.make(here, depth+1)
		if !ok {
			return arr
		}
		for _, other := range m.variants(v, here) {
			if !containsValue(arr, other) && m.fits(here, other) {
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
			if p, ok := s.Pattern.(*expression); ok {
				for _, text := range p.Examples(12) {
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
			here = m.expand(here, to)
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
		if m.fits(list, obj) {
			return
		}
		all := list
		for _, s := range list {
			for _, to := range (nodes{looks: m.looks}).applied(s, apparent{value: obj, present: true}) {
				all = nodes{looks: m.looks}.expand(all, to, apparent{value: obj, present: true})
			}
		}
		var missing []string
		for _, s := range list {
			if invalid, ok := errors.AsType[*jsonschema.ValidationError](m.judge(s, obj)); ok {
				missing = missingMembers(invalid, missing)
			}
		}
		for _, name := range sortedNames(obj) {
			if !m.fits(m.memberSchemas(all, name), obj[name]) {
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
