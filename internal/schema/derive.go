package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// derived lists values that the sender of v may have meant, likeliest first.
// The caller takes the first that fits: nothing here is trusted, and nothing is
// changed in the call, it is only suggested.
func derived(v any, list []*jsonschema.Schema, m *maker) []any {
	var out []any
	switch v := v.(type) {
	case string:
		out = fromString(v, list)
	case json.Number:
		if r := rational(v); r != nil {
			out = append(out, numbersNear(r, boundsOf(list, wantsInteger(list)))...)
			if r.Sign() < 0 {
				out = append(out, numbersNear(r.Neg(r), boundsOf(list, wantsInteger(list)))...)
			}
		}
		out = append(out, v.String())
		switch v {
		case "0":
			out = append(out, false)
		case "1":
			out = append(out, true)
		}
	case bool:
		out = append(out, compact(v))
	case []any:
		out = fromArray(v, list, m)
	case map[string]any:
		out = fromObject(v, list, m)
	case nil:
		return nil
	}
	return append(out, []any{v})
}

func wantsInteger(list []*jsonschema.Schema) bool {
	return slices.ContainsFunc(list, func(s *jsonschema.Schema) bool {
		if s.Types == nil {
			return false
		}
		types := s.Types.ToStrings()
		return slices.Contains(types, "integer") && !slices.Contains(types, "number")
	})
}

func fromString(s string, list []*jsonschema.Schema) []any {
	var out []any
	trimmed := strings.TrimSpace(s)
	if v, f := parseValue([]byte(trimmed), true); f == nil && trimmed != "" {
		out = append(out, v)
		if n, ok := v.(json.Number); ok {
			if r := rational(n); r != nil {
				out = append(out, numbersNear(r, boundsOf(list, wantsInteger(list)))...)
			}
		}
	}
	if plain := strings.ReplaceAll(trimmed, ",", ""); plain != trimmed && isNumber(plain) {
		out = append(out, json.Number(plain))
	}
	switch strings.ToLower(trimmed) {
	case "true", "yes", "on", "1":
		out = append(out, true)
	case "false", "no", "off", "0":
		out = append(out, false)
	}
	for _, to := range slices.Concat(respelt(trimmed), completed(trimmed, list)) {
		out = append(out, to)
	}
	for _, sch := range list {
		if sch.MaxLength != nil && utf8.RuneCountInString(s) > *sch.MaxLength {
			out = append(out, strings.TrimSpace(cut(s, *sch.MaxLength)), cut(s, *sch.MaxLength))
		}
	}
	if parts := strings.Split(trimmed, ","); len(parts) > 1 && len(parts) <= 100 {
		var arr []any
		for _, p := range parts {
			arr = append(arr, strings.TrimSpace(p))
		}
		out = append(out, []any{s}, arr)
	}
	return out
}

// respelt lists other spellings of a text: cases, separators, and the usual
// ways to write dates, times, addresses.
func respelt(s string) []string {
	lower := strings.ToLower(s)
	out := []string{
		s, lower, strings.ToUpper(s),
		strings.Join(strings.Fields(lower), "-"), strings.Join(strings.Fields(lower), "_"), strings.Join(strings.Fields(s), ""),
		strings.ReplaceAll(lower, "_", "-"), strings.ReplaceAll(lower, "-", "_"),
		strings.TrimPrefix(strings.TrimPrefix(lower, "https://"), "http://"),
		strings.Trim(s, "{}"), strings.TrimPrefix(s, "#"),
	}
	return append(out, dates(s)...)
}

// dateLayouts are unambiguous ways to write a day, and common though ambiguous
// ones last. A day-first date beyond the 12th parses only one way.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
	"2006-01-02", "2006-1-2", "2006/01/02", "2006/1/2", "2006.01.02", "20060102", "20060102T150405Z",
	"January 2, 2006", "Jan 2, 2006", "January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006",
	time.RFC1123Z, time.RFC1123, time.UnixDate, "02.01.2006", "2.1.2006", "01/02/2006", "1/2/2006", "02/01/2006", "2/1/2006", "02-01-2006",
}

// clockLayouts are ways to write a time of day.
var clockLayouts = []string{"15:04:05Z07:00", "15:04:05", "15:04", "3:04 PM", "3:04PM", "3PM", "3 PM"}

// dates lists the RFC 3339 forms of a day or time in another form.
func dates(s string) []string {
	if len(s) > 40 || !strings.ContainsAny(s, "0123456789") {
		return nil
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return []string{t.Format(time.RFC3339), t.Format(time.DateOnly), t.Format("15:04:05Z07:00")}
		}
	}
	for _, layout := range clockLayouts {
		if t, err := time.Parse(layout, strings.ToUpper(s)); err == nil {
			return []string{t.Format("15:04:05Z07:00")}
		}
	}
	return nil
}

func fromArray(arr []any, list []*jsonschema.Schema, m *maker) []any {
	var out []any
	if len(arr) > 0 && len(arr) <= 100 {
		out = append(out, unique(arr))
	}
	for _, s := range list {
		if s.MaxItems != nil && len(arr) > *s.MaxItems {
			out = append(out, arr[:*s.MaxItems], unique(arr)[:min(*s.MaxItems, len(unique(arr)))])
		}
		if s.MinItems != nil && len(arr) < *s.MinItems && *s.MinItems <= 20 {
			out = append(out, m.grow(unique(arr), *s.MinItems, list, 0))
		}
		if s.Contains != nil {
			if v, ok := m.make(m.expand(nil, s.Contains), 1); ok {
				out = append(out, append(slices.Clone(arr), v))
			}
		}
	}
	for _, v := range arr[:min(len(arr), 20)] {
		out = append(out, v)
		if s, ok := v.(string); ok {
			out = append(out, fromString(s, list)...)
		}
	}
	return out
}

// unique is arr without repetitions. Long arrays are left alone.
func unique(arr []any) []any {
	if len(arr) > 1000 {
		return arr
	}
	seen := map[string]bool{}
	var out []any
	for _, v := range arr {
		if key := compact(v); !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out
}

func fromObject(obj map[string]any, list []*jsonschema.Schema, m *maker) []any {
	out := []any{m.slimmer(obj, list), m.fuller(obj, list)}
	if len(obj) == 1 {
		for _, v := range obj {
			out = append(out, v)
		}
	}
	if len(obj) > 10 {
		return out
	}
	for _, name := range slices.Backward(sortedNames(obj)) {
		less := maps.Clone(obj)
		delete(less, name)
		out = append(out, less)
	}
	return out
}

// slimmer is obj without optional members beyond maxProperties.
func (m *maker) slimmer(obj map[string]any, list []*jsonschema.Schema) map[string]any {
	most := len(obj)
	required := map[string]bool{}
	for _, s := range list {
		if s.MaxProperties != nil {
			most = min(most, *s.MaxProperties)
		}
		for _, name := range s.Required {
			required[name] = true
		}
	}
	out := map[string]any{}
	for _, keep := range []bool{true, false} {
		for _, name := range sortedNames(obj) {
			if required[name] == keep && len(out) < most {
				out[name] = obj[name]
			}
		}
	}
	return out
}

// fuller is obj with members added up to minProperties.
func (m *maker) fuller(obj map[string]any, list []*jsonschema.Schema) map[string]any {
	out := maps.Clone(obj)
	for _, s := range list {
		if s.MinProperties == nil {
			continue
		}
		for _, name := range sortedNames(s.Properties) {
			if len(out) < *s.MinProperties {
				m.put(out, name, list, 0)
			}
		}
		for i := 1; len(out) < *s.MinProperties && i <= 20; i++ {
			m.put(out, "key"+string(rune('0'+i%10)), list, 0)
		}
	}
	return out
}
