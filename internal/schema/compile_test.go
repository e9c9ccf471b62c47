package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/schema"
)

func TestCompileErrorNamesToolPlaceAndReason(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"no JSON", `{"type":`, `tool "pay": input schema: is not JSON: expected a value at line 1, column 9`},
		{"empty", ``, `tool "pay": input schema: is not JSON: expected a JSON object, beginning with { at line 1, column 1`},
		{"no object", `[]`, `tool "pay": input schema: must be a JSON object`},
		{"a boolean", `true`, `tool "pay": input schema: must be a JSON object`},
		{"a name twice", `{"properties":{"a":{},"a":{}}}`, `tool "pay": input schema: the name "a" appears twice in one object (path properties.a)`},
		{"arguments are objects", `{"type":"string"}`, `tool "pay": input schema at /type: must be "object", because arguments always are one; it is "string"`},
		{"in any case", `{"type":["array","null"]}`, `tool "pay": input schema at /type: must allow "object", because arguments always are one`},
		{"an unknown type", `{"properties":{"a":{"type":"strnig"}}}`, `tool "pay": input schema at /properties/a/type: must be one of ["array","boolean","integer","null","number","object","string"], not "strnig"`},
		{"a keyword of the wrong type", `{"properties":{"a/b":{"minLength":"3"}}}`, `tool "pay": input schema at /properties/a~1b/minLength: must be an integer, not a string`},
		{"required that is no list", `{"required":"a"}`, `tool "pay": input schema at /required: must be an array, not a string`},
		{"a broken pattern", `{"properties":{"a":{"pattern":"[a-"}}}`, `tool "pay": input schema at /properties/a/pattern: `},
		{"a look-behind", `{"properties":{"a":{"pattern":"(?<=x)y"}}}`, `tool "pay": input schema at /properties/a/pattern: `},
		{"a reference to nowhere", `{"properties":{"a":{"$ref":"#/$defs/X"}}}`, `tool "pay": input schema at /properties/a/$ref: refers to #/$defs/X, which is not there`},
		{"an anchor to nowhere", `{"properties":{"a":{"$ref":"#x"}}}`, `tool "pay": input schema at /properties/a/$ref: refers to #x, which is not there`},
		{"another document", `{"properties":{"a":{"$ref":"https://example.com/s.json#/a"}}}`, `tool "pay": input schema at /properties/a/$ref: refers to another document, https://example.com/s.json: references to other documents are never fetched`},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `tool "pay": input schema at /properties/a/$ref: refers to another document, file:///etc/passwd: references to other documents are never fetched`},
		{"a relative file", `{"properties":{"a":{"$ref":"common.json"}}}`, `tool "pay": input schema at /properties/a/$ref: refers to another document, common.json: references to other documents are never fetched`},
		{"an unknown draft", `{"$schema":"https://example.com/draft"}`, `tool "pay": input schema at /$schema: refers to another document, https://example.com/draft: references to other documents are never fetched`},
		{"too long", `{"description":"` + strings.Repeat("x", schema.MaxSchemaBytes) + `"}`, `tool "pay": input schema: is longer than 4194304 bytes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.Compile("pay", []byte(c.source), schema.Options{})
			if _, ok := errors.AsType[*schema.CompileError](err); !ok {
				t.Fatalf("got %v", err)
			}
			if got := err.Error(); got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCompileReadsEveryDraft(t *testing.T) {
	for draft, body := range map[string]string{
		"http://json-schema.org/draft-04/schema#":      `"properties":{"n":{"minimum":1,"exclusiveMinimum":true}}`,
		"http://json-schema.org/draft-06/schema#":      `"properties":{"n":{"exclusiveMinimum":1}}`,
		"http://json-schema.org/draft-07/schema#":      `"properties":{"n":{"exclusiveMinimum":1}}`,
		"http://json-schema.org/draft-07/schema":       `"properties":{"n":{"exclusiveMinimum":1}}`,
		"https://json-schema.org/draft/2019-09/schema": `"properties":{"n":{"exclusiveMinimum":1}}`,
		"https://json-schema.org/draft/2020-12/schema": `"properties":{"n":{"exclusiveMinimum":1}}`,
	} {
		s := mustCompile(t, `{"$schema":"`+draft+`",`+body+`}`, schema.Options{})
		_, _, violations := s.Check(map[string]any{"n": json.Number("1")})
		if len(violations) != 1 || violations[0].Constraint != "exclusiveMinimum: 1" {
			t.Errorf("%s: %+v", draft, violations)
		}
		if _, _, violations := s.Check(map[string]any{"n": json.Number("2")}); violations != nil {
			t.Errorf("%s: %+v", draft, violations)
		}
	}
}

func TestFormatsAreAsserted(t *testing.T) {
	for format, values := range map[string][2]string{
		"date": {"2026-11-21", "2026-11-31"}, "date-time": {"2026-11-21T09:30:00Z", "2026-11-21"}, "time": {"09:30:00Z", "9:30"},
		"duration": {"PT1H", "1h"}, "email": {"a@example.com", "a"}, "uri": {"https://example.com", "example"}, "url": {"https://example.com", "example"},
		"uuid": {"123e4567-e89b-42d3-a456-426614174000", "123"}, "ipv4": {"192.0.2.1", "192.0.2.256"}, "ipv6": {"2001:db8::1", "2001:db8"},
		"hostname": {"example.com", "-x-"}, "regex": {"^a+$", "a("}, "json-pointer": {"/a", "a"}, "uri-reference": {"/a", "\\a"}, "semver": {"1.2.3", "1.2"},
		"iana-tz": {"America/Argentina/Buenos_Aires", "Local"}, "timezone": {"UTC", "Berlin/Europe"}, "byte": {"aGk=", "a"}, "base64url": {"aGk", "+"},
		"cidr": {"192.0.2.0/24", "192.0.2.0"}, "ip": {"::1", "fe80::1%eth0"}, "mac": {"00:00:5e:00:53:01", "00:00"}, "color": {"#1e90ff", "blue"},
		"e164": {"+4915112345678", "0151"}, "decimal": {"12.50", "12,50"}, "json-string": {"{}", "{"}, "idn-email": {"ü@exämple.com", "ü"}, "idn-hostname": {"exämple.com", "a b"},
		"guid": {"123E4567-e89b-42d3-a456-426614174000", "{}"}, "uuid4": {"123E4567-e89b-42d3-A456-426614174000", "00000000-0000-0000-0000-000000000000"},
		"cidrv4": {"192.0.2.0/24", "2001:db8::/32"}, "cidrv6": {"2001:db8::/32", "192.0.2.0/24"}, "base64": {"aGVsbG8=", "aGVs\nbG8="},
	} {
		s := mustCompile(t, `{"properties":{"v":{"type":"string","format":"`+format+`"}}}`, schema.Options{})
		if _, _, violations := s.Check(map[string]any{"v": values[0]}); violations != nil {
			t.Errorf("%s refuses %q", format, values[0])
		}
		if _, _, violations := s.Check(map[string]any{"v": values[1]}); len(violations) != 1 || violations[0].Constraint != `format: "`+format+`"` {
			t.Errorf("%s: %q gives %+v", format, values[1], violations)
		}
	}
	for format, values := range map[string][2]json.Number{
		"int32": {"2147483647", "2147483648"}, "int64": {"5", "5.5"}, "uint32": {"0", "-1"}, "uint64": {"18446744073709551615", "18446744073709551616"},
		" int64": {"9.223372036854775807e18", "9223372036854775808"}, "int64 ": {"-9223372036854775808", "-9223372036854775809"}, " uint64": {"184467440737095516150e-1", "0.1"},
	} {
		format = strings.TrimSpace(format)
		s := mustCompile(t, `{"properties":{"v":{"type":"number","format":"`+format+`"}}}`, schema.Options{})
		_, _, fine := s.Check(map[string]any{"v": values[0]})
		_, _, wrong := s.Check(map[string]any{"v": values[1]})
		if fine != nil || wrong == nil {
			t.Errorf("%s: %v, %v", format, fine, wrong)
		}
	}
	s := mustCompile(t, `{"properties":{"v":{"format":"a-format-of-ours"}}}`, schema.Options{})
	if _, _, violations := s.Check(map[string]any{"v": "anything"}); violations != nil {
		t.Errorf("an unknown format is an annotation: %v", violations)
	}
}

func TestTenThousandToolsCompile(t *testing.T) {
	text, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var tools []struct{ InputSchema json.RawMessage }
	if err := json.Unmarshal(text, &tools); err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		if _, err := schema.Compile(fmt.Sprintf("tool_%d", i), tools[i%len(tools)].InputSchema, schema.Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPropertiesAndRequiredAreThoseOfTheTop(t *testing.T) {
	s := mustCompile(t, `{"properties":{"b":{},"a":{"properties":{"inner":{}},"required":["inner"]}},"required":["z","b"],
		"allOf":[{"properties":{"c":{}},"required":["c"]}]}`, schema.Options{})
	if diff := cmp.Diff([]string{"a", "b"}, s.Properties()); diff != "" {
		t.Error(diff)
	}
	required := s.Required()
	if diff := cmp.Diff([]string{"z", "b"}, required); diff != "" {
		t.Error(diff)
	}
	required[0] = "changed"
	if _, _, violations := s.Check(map[string]any{"z": 1, "b": 2, "c": 3}); violations != nil {
		t.Error("changing the list changed the schema")
	}
	none := mustCompile(t, `{"type":"object"}`, schema.Options{})
	if len(none.Properties()) != 0 || len(none.Required()) != 0 {
		t.Errorf("%v, %v", none.Properties(), none.Required())
	}
}

// The library looks at the members of an object in any order.
func TestOfSeveralMistakesTheSameIsAlwaysNamed(t *testing.T) {
	const want = `tool "t": input schema at /properties/c/pattern: the regular expression "(" cannot be used: missing closing ): ` + "`(`"
	for range 100 {
		_, err := schema.Compile("t", []byte(`{"properties":{"e":{"minLength":-1},"d":{"pattern":"["},"c":{"pattern":"("}}}`), schema.Options{})
		if err == nil || err.Error() != want {
			t.Fatalf("%v, want %s", err, want)
		}
	}
}
