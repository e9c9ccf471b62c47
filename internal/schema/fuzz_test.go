package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// What checking something small may cost. A machine that is busy, and fuzzing,
// make everything a hundred times slower; what must not happen is minutes and
// gigabytes.
const (
	mostTime   = 20 * time.Second
	mostMemory = 512 << 20
)

// bounded runs f and fails when it costs more. A panic is what makes a fuzzer
// keep an input on which f does not end.
func bounded(t *testing.T, f func()) {
	t.Helper()
	before := allocated()
	watch := time.AfterFunc(mostTime, func() { panic("it takes longer than " + mostTime.String()) })
	f()
	watch.Stop()
	if bytes := allocated() - before; bytes > mostMemory {
		t.Errorf("it took %d MB", bytes>>20)
	}
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

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
		var args map[string]any
		var violation *tool.Error
		bounded(t, func() { args, violation = ParseArgs("t", raw) })
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
			other, has := b[name]
			if !has || !sameValue(a[name], other) {
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
		return asWritten(x).Cmp(asWritten(y)) == 0
	}
	return reflect.DeepEqual(a, b)
}

// asWritten is the number that RFC 8785 writes: an integer itself, any other
// number the shortest decimal of its double, which may be an integer then.
func asWritten(r *big.Rat) *big.Rat {
	if r.IsInt() {
		return r
	}
	f, _ := r.Float64()
	short, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64)) // always a number
	return short
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
		var checked map[string]any
		var violations []tool.Error
		bounded(t, func() { checked, _, violations = s.Check(args) })
		wellFormed(t, violations)
		if after := compact(args); before != after {
			t.Errorf("the arguments were changed from %s to %s", before, after)
		}
		if (checked == nil) == (violations == nil) {
			t.Errorf("%s: neither accepted nor refused, or both", raw)
		}
		if violations == nil && s.root().Validate(checked) != nil {
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
	f.Add(doubled(13, `"allOf":[%s,%s]`), `{"a":1}`)
	f.Add(doubled(9, `"oneOf":[%s,%s]`), `{"a":1}`)
	f.Add(doubled(20, `"items":{"anyOf":[%s,%s]}`), `{"a":[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}`)
	f.Add(`{"properties":{"a":{"pattern":"^((a+)+)+$"},"b":{"pattern":"("}}}`, `{"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}`)
	f.Add(`{"properties":{"a":{"multipleOf":1e-300,"maximum":1e308}}}`, `{"a":1e308}`)
	f.Add(`{"properties":{"a":{"minLength":99999999999,"enum":[1e999]}},"type":["array"]}`, `{"a":""}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":1}`)
	f.Add(`{"$ref":"https://example.com/other.json"}`, `{}`)
	f.Fuzz(func(t *testing.T, source, raw string) {
		if len(source)+len(raw) > 8<<10 {
			return
		}
		bounded(t, func() { checkSchema(t, source, raw) })
	})
}

// doubled is a schema whose n definitions each refer to the next one twice.
func doubled(n int, twice string) string {
	var defs strings.Builder
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&defs, `"d%d":{%s},`, i, fmt.Sprintf(twice, next, next))
	}
	return fmt.Sprintf(`{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s"d%d":{"required":["z"]}}}`, defs.String(), n)
}

// checkSchema holds any text to this: it is a schema that judges any arguments,
// or an error that says where and why.
func checkSchema(t *testing.T, source, raw string) {
	t.Helper()
	s, err := Compile("t", []byte(source), Options{Coerce: true})
	if err != nil {
		readable(t, source, err)
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
	if example, ok := s.Example(true); ok && s.root().Validate(example) != nil {
		t.Errorf("%s: the example %s does not fit", source, compact(example))
	}
}

// readable holds an error about a schema to what an operator needs of it.
func readable(t *testing.T, source string, err error) {
	t.Helper()
	var fail *CompileError
	if !errors.As(err, &fail) {
		t.Fatalf("%s: %T", source, err)
	}
	if fail.Tool != "t" || fail.Reason == "" || !utf8.ValidString(err.Error()) || fail.Pointer != "" && fail.Pointer[0] != '/' {
		t.Errorf("%s: %+v", source, fail)
	}
	if len(fail.Error()) > len(source)*8+4<<10 {
		t.Errorf("an error of %d bytes about a schema of %d", len(fail.Error()), len(source))
	}
}

// Two texts have the same canonical form, and the same fingerprint, exactly
// when they say the same.
func FuzzCanonicalEquality(f *testing.F) {
	for i, s := range rawSeeds {
		f.Add(s, rawSeeds[(i+1)%len(rawSeeds)])
		f.Add(s, " "+s+"\n")
	}
	f.Add(`{"a":1,"b":2}`, `{"b":2.0,"a":1e0}`)
	f.Add(`[9007199254740993]`, `[9007199254740992]`)
	f.Add(`["\u00e9"]`, `["e\u0301"]`)
	f.Add(`{"\ud83d\ude00":0,"\ufb33":1}`, `{"\ufb33":1,"😀":0}`)
	f.Add(`[0.1]`, `[0.10000000000000001]`)
	f.Fuzz(func(t *testing.T, one, two string) {
		a, faultA := parseValue([]byte(one), true)
		b, faultB := parseValue([]byte(two), true)
		if faultA != nil || faultB != nil {
			return
		}
		x, errX := Canonical(a)
		y, errY := Canonical(b)
		if errX != nil || errY != nil {
			t.Fatal(errX, errY)
		}
		same := sameValue(a, b)
		if bytes.Equal(x, y) != same || (Fingerprint("t", x) == Fingerprint("t", y)) != same {
			t.Errorf("%s and %s: the same value %v, canonical %s and %s", one, two, same, x, y)
		}
		if Fingerprint("t", x) == Fingerprint("u", x) {
			t.Errorf("%s: the tool's name does not count", x)
		}
	})
}
