package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/tool"
)

// wellFormed holds violations to what every reader of them relies on.
func wellFormed(t *testing.T, violations []tool.Error) {
	t.Helper()
	if len(violations) > maxViolations {
		t.Errorf("%d violations", len(violations))
	}
	for _, v := range violations {
		text := tool.RenderError(v, nil)
		switch {
		case !utf8.ValidString(string(v.Code) + v.Field + v.Constraint + v.Received + v.Hint):
			t.Errorf("invalid UTF-8: %q", text)
		case !json.Valid([]byte(text)):
			t.Errorf("not JSON: %s", text)
		case v.Code != tool.CodeInvalidArgs:
			t.Errorf("code: %s", text)
		case utf8.RuneCountInString(v.Received) > maxReceived:
			t.Errorf("long: %s", text)
		case v.Constraint == "" || v.Received == "" || !strings.HasSuffix(v.Hint, "again."):
			t.Errorf("something is missing: %s", text)
		}
	}
}

var rawSeeds = []string{
	``, ` `, `{}`, `{"a":1}`, `{"a":1,"a":2}`, `{"a":[1,{"b":null}],"c":"\ud83d\ude00"}`, `[1]`, `"x"`, `{'a':1}`, `{"a":1,}`, `{"a":tru`, "{\"a\":\"\n\"}",
	`{"a":1e400}`, `{"a":-0}`, `{"a":12345678901234567890.0}`, "```json", `{"a":"\x"}`, "\xff", `{"a":1}{`, `{"":{"":[[[]]]}}`, `{"a" 1}`, `{"a":.5}`, "\ufeff{}",
}

func FuzzParseArgs(f *testing.F) {
	for _, s := range rawSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		args, violation := ParseArgs("t", raw)
		if violation != nil {
			wellFormed(t, []tool.Error{*violation})
			return
		}
		if strings.TrimSpace(raw) != "" && !json.Valid([]byte(raw)) {
			t.Errorf("%q is not JSON", raw)
		}
		if _, err := Canonical(args); err != nil {
			t.Errorf("%q has no canonical form: %v", raw, err)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range rawSeeds {
		f.Add(s)
	}
	f.Add(`{"n":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,9007199254740993,9007199254740993.0,1e22,123456789012345678901234567890]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		v, fault := parseValue([]byte(raw), true)
		if fault != nil {
			return
		}
		first, err := Canonical(v)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		again, fault := parseValue(first, true)
		if fault != nil {
			t.Fatalf("%q became %q, which is no JSON", raw, first)
		}
		if second, err := Canonical(again); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%q: %q, then %q, %v", raw, first, second, err)
		}
		if shuffled, err := Canonical(respell(v)); err != nil || !bytes.Equal(first, shuffled) {
			t.Errorf("%q: equal values give %q and %q", raw, first, shuffled)
		}
		if !sameValue(v, again) {
			t.Errorf("%q became another value: %q", raw, first)
		}
	})
}

// respell builds an equal value in another order, numbers spelt differently.
func respell(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		names := sortedNames(v)
		for i := range names {
			name := names[len(names)-1-i]
			out[name] = respell(v[name])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = respell(v[i])
		}
		return out
	case json.Number:
		if s := v.String(); len(s) < 300 && !strings.ContainsAny(s, ".eE") {
			return json.Number(s + ".000e0")
		}
	}
	return v
}

// sameValue compares by value, integers exactly, other numbers as doubles.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if !sameValue(a[name], b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		x, y := rational(a), rational(b)
		if x == nil || y == nil {
			return false
		}
		if x.IsInt() {
			return x.Cmp(y) == 0
		}
		f, _ := x.Float64()
		g, _ := y.Float64()
		return f == g
	}
	return reflect.DeepEqual(a, b)
}

// corpusTools are the tools of testdata.
func corpusTools(tb testing.TB) []struct {
	Name        string
	InputSchema json.RawMessage
	Calls       []json.RawMessage
} {
	tb.Helper()
	text, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		tb.Fatal(err)
	}
	var tools []struct {
		Name        string
		InputSchema json.RawMessage
		Calls       []json.RawMessage
	}
	if err := json.Unmarshal(text, &tools); err != nil {
		tb.Fatal(err)
	}
	return tools
}

func FuzzCheck(f *testing.F) {
	var schemas []*Schema
	for i, tl := range corpusTools(f) {
		s, err := Compile(tl.Name, tl.InputSchema, Options{Coerce: i%2 == 0, Sensitive: []string{"pin", "secret"}})
		if err != nil {
			f.Fatal(err)
		}
		schemas = append(schemas, s)
		for _, call := range tl.Calls {
			f.Add(byte(i), string(call))
		}
		f.Add(byte(i), `{}`)
	}
	f.Fuzz(func(t *testing.T, which byte, raw string) {
		s := schemas[int(which)%len(schemas)]
		args, violation := s.ParseArgs(raw)
		if violation != nil {
			wellFormed(t, []tool.Error{*violation})
			return
		}
		before := compact(args)
		checked, _, violations := s.Check(args)
		wellFormed(t, violations)
		if after := compact(args); before != after {
			t.Errorf("the arguments were changed from %s to %s", before, after)
		}
		if (checked == nil) == (violations == nil) {
			t.Errorf("%s: neither accepted nor refused, or both", raw)
		}
		if violations == nil && s.judge(checked) != nil {
			t.Errorf("%s: what was accepted does not fit: %s", raw, compact(checked))
		}
	})
}

func FuzzSchema(f *testing.F) {
	for _, tl := range corpusTools(f) {
		call := `{}`
		if len(tl.Calls) > 0 {
			call = string(tl.Calls[0])
		}
		f.Add(string(tl.InputSchema), call)
	}
	f.Add(`{"$defs":{"a":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, `{"x":1}`)
	f.Add(`{"not":{"not":{"required":["a"]}}}`, `{}`)
	f.Add(`{"if":true,"then":false}`, `{"a":[]}`)
	f.Add(`{"properties":{"a":{"prefixItems":[{}],"unevaluatedItems":false}}}`, `{"a":[1,2]}`)
	f.Add(`{"$dynamicRef":"#x","$dynamicAnchor":"x","minProperties":1}`, `{}`)
	f.Fuzz(func(t *testing.T, source, raw string) {
		if len(source)+len(raw) > 8<<10 {
			return
		}
		s, err := Compile("t", []byte(source), Options{Coerce: true})
		if err != nil {
			return
		}
		if err := s.Prepare(); err != nil {
			t.Fatalf("%s was called sound: %v", source, err)
		}
		args, violation := s.ParseArgs(raw)
		if violation != nil {
			return
		}
		_, _, violations := s.Check(args)
		wellFormed(t, violations)
		if example, ok := s.Example(true); ok && s.judge(example) != nil {
			t.Errorf("%s: the example %s does not fit", source, compact(example))
		}
	})
}
