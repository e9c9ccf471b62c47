package schema

import (
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// quick reports that a value surely fits a schema, without anything being made for that. What
// it says no to may fit all the same: the validator knows, and why not. nil is a schema that
// has something of which it does not know enough.
type quick func(v any) bool

// quickly are the keywords that it knows, and those that assert nothing. One that a
// later draft, or version of the library, has beside them makes a schema slow, and not wrong.
var quickly = []string{
	"Bool", "Ref", "Types", "Enum", "Const", "AllOf", "AnyOf", "Format", "Pattern",
	"MaxProperties", "MinProperties", "Required", "Properties", "AdditionalProperties",
	"MinItems", "MaxItems", "Items", "Items2020", "MinLength", "MaxLength",
	"Maximum", "Minimum", "ExclusiveMaximum", "ExclusiveMinimum",
	"DraftVersion", "Location", "ID", "Anchor", "DynamicAnchor", "RecursiveAnchor",
	"Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated",
}

// quickened are the schemas that were looked at. One that refers to itself is met while it is,
// and has none.
type quickened map[*jsonschema.Schema]quick

func (q quickened) of(s *jsonschema.Schema) quick {
	fits, met := q[s]
	if !met {
		q[s] = nil
		fits = q.made(s)
		q[s] = fits
	}
	return fits
}

func (q quickened) made(s *jsonschema.Schema) quick {
	if !allQuick(s) {
		return nil
	}
	var all []quick
	for _, part := range [...]func(*jsonschema.Schema) ([]quick, bool){quickValue, quickNumber, q.object, q.array, q.parts} {
		found, ok := part(s)
		if !ok {
			return nil
		}
		all = append(all, found...)
	}
	return func(v any) bool {
		for _, fits := range all {
			if !fits(v) {
				return false
			}
		}
		return true
	}
}

func allQuick(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for field := range v.Type().Fields() {
		if field.IsExported() && !v.FieldByIndex(field.Index).IsZero() && !slices.Contains(quickly, field.Name) {
			return false
		}
	}
	return true
}

// quickValue is what is asked of a value as such.
func quickValue(s *jsonschema.Schema) (all []quick, ok bool) {
	if s.Bool != nil {
		all = append(all, func(any) bool { return *s.Bool })
	}
	if s.Types != nil {
		types := s.Types.ToStrings()
		all = append(all, func(v any) bool {
			return slices.Contains(types, typeName(v)) || isShort(v) && slices.Contains(types, "integer")
		})
	}
	if s.Enum != nil {
		all = append(all, among(s.Enum.Values))
	}
	if s.Const != nil {
		all = append(all, among([]any{*s.Const}))
	}
	if s.Format != nil {
		all = append(all, func(v any) bool { return s.Format.Validate(v) == nil })
	}
	if s.Pattern != nil {
		all = append(all, func(v any) bool {
			text, is := v.(string)
			return !is || s.Pattern.MatchString(text)
		})
	}
	if s.MinLength != nil || s.MaxLength != nil {
		all = append(all, func(v any) bool {
			text, is := v.(string)
			return !is || within(utf8.RuneCountInString(text), s.MinLength, s.MaxLength)
		})
	}
	return all, true
}

// among knows texts, and what has no more than one spelling.
func among(values []any) quick {
	return func(v any) bool {
		switch v.(type) {
		case string, bool, nil:
			return slices.Contains(values, v)
		}
		return false
	}
}

func within(n int, least, most *int) bool {
	return (least == nil || *least <= n) && (most == nil || n <= *most)
}

// short is an integer of so few digits that nobody can mistake it.
func short(v any) (int64, bool) {
	text, is := v.(json.Number)
	if !is || len(text) > 18 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

func isShort(v any) bool {
	_, is := short(v)
	return is
}

func quickNumber(s *jsonschema.Schema) (all []quick, ok bool) {
	for _, bound := range []struct {
		limit *big.Rat
		fits  func(n, limit int64) bool
	}{
		{s.Minimum, func(n, limit int64) bool { return n >= limit }}, {s.ExclusiveMinimum, func(n, limit int64) bool { return n > limit }},
		{s.Maximum, func(n, limit int64) bool { return n <= limit }}, {s.ExclusiveMaximum, func(n, limit int64) bool { return n < limit }},
	} {
		if bound.limit == nil {
			continue
		}
		if !bound.limit.IsInt() || !bound.limit.Num().IsInt64() {
			return nil, false
		}
		limit := bound.limit.Num().Int64()
		all = append(all, func(v any) bool {
			if _, is := v.(json.Number); !is {
				return true
			}
			n, is := short(v)
			return is && bound.fits(n, limit)
		})
	}
	return all, true
}

func (q quickened) object(s *jsonschema.Schema) (all []quick, ok bool) {
	members := make(map[string]quick, len(s.Properties))
	for name, of := range s.Properties {
		if members[name] = q.of(of); members[name] == nil {
			return nil, false
		}
	}
	var others quick
	switch of := s.AdditionalProperties.(type) {
	case bool:
		others = func(any) bool { return of }
	case *jsonschema.Schema:
		if others = q.of(of); others == nil {
			return nil, false
		}
	}
	if len(members) == 0 && others == nil && len(s.Required) == 0 && s.MinProperties == nil && s.MaxProperties == nil {
		return nil, true
	}
	return []quick{func(v any) bool {
		object, is := v.(map[string]any)
		if !is {
			return true
		}
		for _, name := range s.Required {
			if _, has := object[name]; !has {
				return false
			}
		}
		for name, value := range object {
			fits, named := members[name]
			if !named {
				fits = others
			}
			if fits != nil && !fits(value) {
				return false
			}
		}
		return within(len(object), s.MinProperties, s.MaxProperties)
	}}, true
}

func (q quickened) array(s *jsonschema.Schema) (all []quick, ok bool) {
	items := s.Items2020
	switch of := s.Items.(type) {
	case nil:
	case *jsonschema.Schema:
		items = of
	default: // one for each place
		return nil, false
	}
	var each quick
	if items != nil {
		if each = q.of(items); each == nil {
			return nil, false
		}
	}
	return []quick{func(v any) bool {
		array, is := v.([]any)
		return !is || within(len(array), s.MinItems, s.MaxItems) &&
			(each == nil || !slices.ContainsFunc(array, func(item any) bool { return !each(item) }))
	}}, true
}

// parts are the schemas that a value has to fit besides.
func (q quickened) parts(s *jsonschema.Schema) (all []quick, ok bool) {
	if s.Ref != nil {
		all = append(all, q.of(s.Ref))
	}
	for _, part := range s.AllOf {
		all = append(all, q.of(part))
	}
	var branches []quick
	for _, branch := range s.AnyOf {
		branches = append(branches, q.of(branch))
	}
	if slices.ContainsFunc(append(slices.Clip(all), branches...), func(part quick) bool { return part == nil }) {
		return nil, false
	}
	if len(branches) > 0 {
		all = append(all, func(v any) bool {
			return slices.ContainsFunc(branches, func(fits quick) bool { return fits(v) })
		})
	}
	return all, true
}
