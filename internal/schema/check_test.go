package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// complaint is one violation as a test writes it. The code is INVALID_ARGS, and
// every hint ends in the same words, which are left out.
type complaint struct{ field, constraint, received, hint string }

const callAgain = ", then call create_ticket again."

// complaints checks text against a schema whose properties are given, closed
// and with the required ones.
func complaints(t *testing.T, source, text string) []complaint {
	t.Helper()
	s := mustCompile(t, source, schema.Options{})
	args, violation := s.ParseArgs(text)
	if violation != nil {
		t.Fatalf("%s does not parse: %+v", text, violation)
	}
	_, _, violations := s.Check(args)
	return toComplaints(t, violations)
}

func toComplaints(t *testing.T, violations []tool.Error) []complaint {
	t.Helper()
	var out []complaint
	for _, v := range violations {
		if v.Code != tool.CodeInvalidArgs {
			t.Errorf("code %s in %+v", v.Code, v)
		}
		hint, ok := strings.CutSuffix(v.Hint, callAgain)
		if !ok {
			t.Errorf("hint %q does not end with what to call", v.Hint)
		}
		out = append(out, complaint{v.Field, v.Constraint, v.Received, hint})
	}
	return out
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, schema, args string
		want               []complaint
	}{
		{
			"a number sent as a string",
			`{"properties":{"n":{"type":"integer"}}}`, `{"n":"5"}`,
			[]complaint{{"n", `type: "integer"`, `"5"`, `Send n as an integer, not as a string, e.g. 5`}},
		},
		{
			"a string sent as a number",
			`{"properties":{"id":{"type":"string"}}}`, `{"id":1234567890123456789}`,
			[]complaint{{"id", `type: "string"`, `1234567890123456789`, `Send id as a string, e.g. "1234567890123456789"`}},
		},
		{
			"a fraction where an integer is wanted",
			`{"properties":{"n":{"type":"integer","minimum":3}}}`, `{"n":2.4}`,
			[]complaint{{"n", `type: "integer"`, `2.4`, `Send n as an integer, e.g. 3`}},
		},
		{
			"an array where one value is wanted",
			`{"properties":{"city":{"type":"string"}}}`, `{"city":["Berlin"]}`,
			[]complaint{{"city", `type: "string"`, `["Berlin"]`, `Send one value for city, a string, not an array, e.g. "Berlin"`}},
		},
		{
			"one value where an array is wanted",
			`{"properties":{"tags":{"type":"array","items":{"type":"string"}}}}`, `{"tags":"fire"}`,
			[]complaint{{"tags", `type: "array"`, `"fire"`, `Send tags as an array, not as a string, e.g. ["fire"]`}},
		},
		{
			"an object in a string",
			`{"properties":{"f":{"type":"object","properties":{"k":{"type":"string"}}}}}`, `{"f":"{\"k\":\"v\"}"}`,
			[]complaint{{"f", `type: "object"`, `"{\"k\":\"v\"}"`, `Send f as JSON, not as a string that contains it, e.g. {"k":"v"}`}},
		},
		{
			"several types",
			`{"properties":{"v":{"type":["string","number"]}}}`, `{"v":true}`,
			[]complaint{{"v", `type: ["string","number"]`, `true`, `Send v as a string or a number, e.g. "true"`}},
		},
		{
			"null for a required property",
			`{"properties":{"v":{"type":"boolean"}},"required":["v"]}`, `{"v":null}`,
			[]complaint{{"v", `type: "boolean"`, `null`, `Send v as a boolean, not null, e.g. true`}},
		},
		{
			"a misspelt enum value",
			`{"properties":{"priority":{"enum":["low","medium","high","urgent"]}}}`, `{"priority":"hihg"}`,
			[]complaint{{"priority", `enum: ["low","medium","high","urgent"]`, `"hihg"`, `Did you mean "high"? Set priority to one of the 4 allowed values`}},
		},
		{
			"an enum value in capitals",
			`{"properties":{"priority":{"enum":["low","high"]}}}`, `{"priority":"HIGH"}`,
			[]complaint{{"priority", `enum: ["low","high"]`, `"HIGH"`, `Did you mean "high"? Set priority to one of the 2 allowed values`}},
		},
		{
			"a value far from every enum value",
			`{"properties":{"priority":{"enum":["low","high"],"default":"high"}}}`, `{"priority":"asap"}`,
			[]complaint{{"priority", `enum: ["low","high"]`, `"asap"`, `Set priority to one of the 2 allowed values, e.g. "high"`}},
		},
		{
			"const",
			`{"properties":{"v":{"const":2}}}`, `{"v":1}`,
			[]complaint{{"v", `const: 2`, `1`, `Set v to its only allowed value, e.g. 2`}},
		},
		{
			"a date in another form",
			`{"properties":{"due":{"type":"string","format":"date"}}}`, `{"due":"Nov 21, 2026"}`,
			[]complaint{{"due", `format: "date"`, `"Nov 21, 2026"`, `Send due in the format date (YYYY-MM-DD), e.g. "2026-11-21"`}},
		},
		{
			"a value that is no date at all: the schema's example",
			`{"properties":{"due":{"type":"string","format":"date","examples":["2027-01-31"]}}}`, `{"due":"soon"}`,
			[]complaint{{"due", `format: "date"`, `"soon"`, `Send due in the format date (YYYY-MM-DD), e.g. "2027-01-31"`}},
		},
		{
			"minimum, as the author wrote it",
			`{"properties":{"n":{"type":"number","minimum":0.50}}}`, `{"n":-1}`,
			[]complaint{{"n", `minimum: 0.50`, `-1`, `Set n to at least 0.50, e.g. 0.5`}},
		},
		{
			"maximum with a step",
			`{"properties":{"n":{"type":"integer","maximum":100,"multipleOf":30}}}`, `{"n":120}`,
			[]complaint{{"n", `maximum: 100`, `120`, `Set n to at most 100, e.g. 90`}},
		},
		{
			"exclusive bounds",
			`{"properties":{"n":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}}}`, `{"n":10}`,
			[]complaint{{"n", `exclusiveMaximum: 10`, `10`, `Set n to less than 10, e.g. 9`}},
		},
		{
			"multipleOf",
			`{"properties":{"n":{"type":"number","multipleOf":0.25}}}`, `{"n":1.3}`,
			[]complaint{{"n", `multipleOf: 0.25`, `1.3`, `Set n to a multiple of 0.25, e.g. 1.25`}},
		},
		{
			"pattern, repaired by another spelling",
			`{"properties":{"id":{"type":"string","pattern":"^A-[0-9]+$"}}}`, `{"id":" a-12 "}`,
			[]complaint{{"id", `pattern: "^A-[0-9]+$"`, `" a-12 "`, `Send id in the form that the pattern describes, e.g. "A-12"`}},
		},
		{
			"pattern, with an example made from it",
			`{"properties":{"id":{"type":"string","pattern":"^A-[0-9]{4}$"}}}`, `{"id":"?"}`,
			[]complaint{{"id", `pattern: "^A-[0-9]{4}$"`, `"?"`, `Send id in the form that the pattern describes, e.g. "A-1111"`}},
		},
		{
			"lengths",
			`{"properties":{"a":{"type":"string","minLength":3},"b":{"type":"string","maxLength":3}}}`, `{"a":"x","b":"abcdef"}`,
			[]complaint{
				{"a", `minLength: 3`, `"x"`, `Send a with at least 3 characters, e.g. "text"`},
				{"b", `maxLength: 3`, `"abcdef"`, `Shorten b to at most 3 characters, e.g. "abc"`},
			},
		},
		{
			"numbers of items",
			`{"properties":{"a":{"type":"array","items":{"type":"integer"},"minItems":2},"b":{"type":"array","maxItems":1}}}`, `{"a":[7],"b":[1,2]}`,
			[]complaint{
				{"a", `minItems: 2`, `[7]`, `Send a with at least 2 items, e.g. [7,1]`},
				{"b", `maxItems: 1`, `[1,2]`, `Send b with at most 1 items, e.g. [1]`},
			},
		},
		{
			"uniqueItems",
			`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1]}`,
			[]complaint{{"a", `uniqueItems: true`, `[1,2,1]`, `Remove the repeated items of a: item 2 equals item 0, e.g. [1,2]`}},
		},
		{
			"contains",
			`{"properties":{"a":{"contains":{"const":"x"}}}}`, `{"a":["y"]}`,
			[]complaint{{"a", `contains: {"const":"x"}`, `["y"]`, `Add an item to a that fits the schema under contains, e.g. ["y","x"]`}},
		},
		{
			"maxContains, at the item to remove",
			`{"properties":{"a":{"contains":{"const":"x"},"maxContains":1}}}`, `{"a":["x","y","x"]}`,
			[]complaint{{"a[2]", `maxContains: 1`, `"x"`, `Remove a[2]`}},
		},
		{
			"a tuple with too many items",
			`{"properties":{"p":{"prefixItems":[{"type":"number"},{"type":"number"}],"items":false}}}`, `{"p":[1,2,3,4]}`,
			[]complaint{{"p", `maxItems: 2`, `[1,2,3,4]`, `Send at most 2 items in p`}},
		},
		{
			"numbers of properties",
			`{"properties":{"o":{"type":"object","properties":{"x":{"type":"integer"}},"minProperties":1}}}`, `{"o":{}}`,
			[]complaint{{"o", `minProperties: 1`, `{}`, `Send o with at least 1 properties, e.g. {"x":1}`}},
		},
		{
			"propertyNames",
			`{"properties":{"o":{"propertyNames":{"pattern":"^[a-z-]+$"}},"z":{}}}`, `{"o":{"My Tag":1},"z":{"A":1}}`,
			[]complaint{{`o["My Tag"]`, `propertyNames: {"pattern":"^[a-z-]+$"}`, `"My Tag"`, `Did you mean "my-tag"? Rename "My Tag" to "my-tag"`}},
		},
		{
			"a missing property",
			`{"properties":{"zone":{"type":"string","format":"iana-tz","description":"Where it is shown, e.g. Europe/Paris."}},"required":["zone"]}`, `{}`,
			[]complaint{{"zone", `required: {"format":"iana-tz","type":"string"}`, `(missing)`, `Add "zone", e.g. "Europe/Berlin" (string, format iana-tz: Where it is shown, such as Europe/Paris)`}},
		},
		{
			"a missing property with a default",
			`{"properties":{"n":{"type":"integer","default":10,"minimum":1}},"required":["n"]}`, `{}`,
			[]complaint{{"n", `required: {"default":10,"minimum":1,"type":"integer"}`, `(missing)`, `Add "n", e.g. 10 (integer)`}},
		},
		{
			"a missing property of an item",
			`{"properties":{"items":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string","pattern":"^[A-Z]{3}$"}},"required":["sku"]}}}}`, `{"items":[{"sku":"ABC"},{"sku":"DEF"},{}]}`,
			[]complaint{{"items[2].sku", `required: {"pattern":"^[A-Z]{3}$","type":"string"}`, `(missing)`, `Add "sku", e.g. "AAA" (string)`}},
		},
		{
			"an unknown property",
			`{"properties":{"order_id":{},"verbose":{}},"additionalProperties":false}`, `{"order_id":1,"colour":"red"}`,
			[]complaint{{"colour", `additionalProperties: ["order_id","verbose"]`, `"red"`, `Remove "colour"`}},
		},
		{
			"an unknown property with a near name",
			`{"properties":{"order_id":{},"verbose":{}},"additionalProperties":false}`, `{"order_id":1,"verbos":true}`,
			[]complaint{{"verbos", `additionalProperties: ["order_id","verbose"]`, `true`, `Did you mean "verbose"? Rename "verbos" to "verbose"`}},
		},
		{
			"a near name that is already there",
			`{"properties":{"verbose":{}},"additionalProperties":false}`, `{"verbose":true,"verbos":true}`,
			[]complaint{{"verbos", `additionalProperties: ["verbose"]`, `true`, `Remove "verbos"`}},
		},
		{
			"a missing property and a near name are one violation",
			`{"properties":{"timezone":{"type":"string"}},"required":["timezone"],"additionalProperties":false}`, `{"tz":"UTC"}`,
			[]complaint{{"tz", `additionalProperties: ["timezone"]`, `"UTC"`, `Did you mean "timezone"? Rename "tz" to "timezone"`}},
		},
		{
			"so are they where other properties are allowed",
			`{"properties":{"timezone":{"type":"string"}},"required":["timezone"]}`, `{"time_zone":"UTC"}`,
			[]complaint{{"timezone", `required: {"type":"string"}`, `(missing)`, `Did you mean "timezone"? Rename "time_zone" to "timezone"`}},
		},
		{
			"a misnamed property with a wrong value: the value first, then the name",
			`{"properties":{"count":{"type":"integer"}},"required":["count"],"additionalProperties":false}`, `{"cuont":"5"}`,
			[]complaint{
				{"cuont", `type: "integer"`, `"5"`, `Send cuont as an integer, not as a string, e.g. 5`},
				{"cuont", `additionalProperties: ["count"]`, `"5"`, `Did you mean "count"? Rename "cuont" to "count"`},
			},
		},
		{
			"unevaluatedProperties",
			`{"allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false}`, `{"a":1,"c":1}`,
			[]complaint{{"c", `additionalProperties: ["a","b"]`, `1`, `Remove "c"`}},
		},
		{
			"names by pattern",
			`{"patternProperties":{"^x-":{}},"additionalProperties":false}`, `{"y":1}`,
			[]complaint{{"y", `additionalProperties: []`, `1`, `Remove "y" or give it a name that matches ^x-`}},
		},
		{
			"dependentRequired",
			`{"properties":{"from":{},"to":{"type":"string","format":"date"}},"dependentRequired":{"from":["to"]}}`, `{"from":1}`,
			[]complaint{{"to", `required: {"format":"date","type":"string"}`, `(missing)`, `Add "to", which goes with "from", e.g. "2026-11-21" (string, format date)`}},
		},
		{
			"if and then",
			`{"properties":{"kind":{},"card":{"type":"string","pattern":"^[0-9]{4}$"}},"if":{"properties":{"kind":{"const":"card"}},"required":["kind"]},"then":{"required":["card"]}}`, `{"kind":"card"}`,
			[]complaint{{"card", `required: {"pattern":"^[0-9]{4}$","type":"string"}`, `(missing)`, `Add "card", e.g. "1111" (string)`}},
		},
		{
			"not: two that exclude each other",
			`{"properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`, `{"a":1,"b":2}`,
			[]complaint{{"", `not: {"required":["a","b"]}`, `{"a":1,"b":2}`, `Change the arguments so that it does not fit the schema under not, e.g. {"a":1}`}},
		},
		{
			"oneOf, when two fit",
			`{"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`,
			[]complaint{{"", `oneOf: [{"required":["a"]},{"required":["b"]}]`, `{"a":1,"b":2}`, `Send either "a" or "b", not both, e.g. {"a":1}`}},
		},
		{
			"names that need quotes",
			`{"properties":{"a.b":{"properties":{"c d":{"type":"array","items":{"type":"integer"}}}}}}`, `{"a.b":{"c d":[1,"x"]}}`,
			[]complaint{{`["a.b"]["c d"][1]`, `type: "integer"`, `"x"`, `Send ["a.b"]["c d"][1] as an integer, not as a string, e.g. 1`}},
		},
		{
			"references",
			`{"properties":{"p":{"$ref":"#/$defs/P"}},"required":["p"],"$defs":{"P":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}`, `{}`,
			[]complaint{{"p", `required: {"properties":{"x":{"type":"integer"}},"required":["x"],"type":"object"}`, `(missing)`, `Add "p", e.g. {"x":1} (object)`}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, complaints(t, c.schema, c.args), cmp.AllowUnexported(complaint{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckOrdersAndBoundsViolations(t *testing.T) {
	var properties []string
	for i := range 30 {
		properties = append(properties, fmt.Sprintf(`"p%02d":{"type":"integer"}`, i))
	}
	source := `{"properties":{` + strings.Join(properties, ",") + `},"required":["p05"],"additionalProperties":false}`
	args := map[string]any{"stranger": true}
	for i := range 30 {
		if i != 5 {
			args[fmt.Sprintf("p%02d", i)] = "wrong"
		}
	}
	s := mustCompile(t, source, schema.Options{})
	_, _, violations := s.Check(args)
	if len(violations) != 10 {
		t.Fatalf("%d violations, want 10", len(violations))
	}
	if violations[0].Field != "p05" {
		t.Errorf("first is %q, want the missing p05", violations[0].Field)
	}
	for range 20 {
		if _, _, again := s.Check(args); cmp.Diff(violations, again) != "" {
			t.Fatal("the order changes from call to call")
		}
	}
}

func TestCheckCutsLongValues(t *testing.T) {
	long := strings.Repeat("ä", 1_000_000)
	got := complaints(t, `{"properties":{"n":{"type":"integer"}}}`, `{"n":"`+long+`"}`)
	if n := len([]rune(got[0].received)); n != 200 || !strings.HasSuffix(got[0].received, "…") {
		t.Errorf("received has %d characters: %s", n, got[0].received)
	}
	if len(got[0].hint) > 500 {
		t.Errorf("hint of %d bytes", len(got[0].hint))
	}
}

func TestCheckShortensLongEnums(t *testing.T) {
	var values []string
	for i := range 600 {
		values = append(values, fmt.Sprintf("value-%03d", i))
	}
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	got := complaints(t, `{"properties":{"v":{"enum":`+string(text)+`}}}`, `{"v":"value-59"}`)
	var shown []string
	if err := json.Unmarshal([]byte(strings.TrimPrefix(got[0].constraint, "enum: ")), &shown); err != nil {
		t.Fatalf("%s: %v", got[0].constraint, err)
	}
	if len(shown) != 50 || !strings.HasPrefix(got[0].hint, `Did you mean "value-`) {
		t.Errorf("%d values, hint %s", len(shown), got[0].hint)
	}
}

func TestCheckReturnsValidArgumentsThemselves(t *testing.T) {
	s := mustCompile(t, ticketSchema, schema.Options{})
	args, _ := s.ParseArgs(ticketCall)
	checked, notes, violations := s.Check(args)
	if violations != nil || notes != nil {
		t.Fatal(violations, notes)
	}
	checked["mark"] = true
	if args["mark"] != true {
		t.Error("valid arguments were copied")
	}
}

func TestTheSameCallIsAlwaysAnsweredInTheSameWords(t *testing.T) {
	s := mustCompile(t, `{"patternProperties":{"^a":{"type":"string","examples":["one"]},"a$":{"type":"string","examples":["two"]},"a":{"minLength":2,"examples":["three"]}},
		"dependentSchemas":{"x":{"properties":{"y":{"type":"string","examples":["four"]}}},"z":{"properties":{"y":{"type":"string","examples":["five"]}}}}}`, schema.Options{})
	args := map[string]any{"a": map[string]any{}, "aa": map[string]any{}, "x": "", "y": map[string]any{}, "z": ""}
	_, _, want := s.Check(args)
	for range 100 {
		if _, _, got := s.Check(args); !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}
