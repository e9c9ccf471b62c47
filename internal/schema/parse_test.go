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

func TestParseArgsReadsOneObject(t *testing.T) {
	for text, want := range map[string]map[string]any{
		"":                {},
		" \t\r\n ":        {},
		"{}":              {},
		` {"a" : 1 } `:    {"a": json.Number("1")},
		`{"a":1.50e2}`:    {"a": json.Number("1.50e2")},
		`{"a":[]}`:        {"a": []any{}},
		`{"a":null}`:      {"a": nil},
		`{"":{"b":[{}]}}`: {"": map[string]any{"b": []any{map[string]any{}}}},
		`{"a":"é\u00e9\ud83d\ude00\n","b":true,"c":false}`: {"a": "éé😀\n", "b": true, "c": false},
		`{"id":12345678901234567890}`:                      {"id": json.Number("12345678901234567890")},
	} {
		got, violation := schema.ParseArgs("t", text)
		if violation != nil {
			t.Errorf("%s: %+v", text, violation)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestParseArgsSaysWhereAndWhatIsExpected(t *testing.T) {
	const where = "the arguments must be one JSON object: expected "
	for _, c := range []struct{ name, text, field, constraint, received, hint string }{
		{"cut off after a comma", `{"path":"x",`, "", where + `a name in double quotes at line 1, column 13`, `{"path":"x",`, "Send the arguments complete: the text ends before the object does"},
		{"cut off inside a string", `{"a":"x`, "a", where + `the closing " of a string at line 1, column 8`, `{"a":"x`, "Send the arguments complete: the text ends before the object does"},
		{"cut off inside an array", "{\"a\":\n [1, 2", "a", where + `"," or "]" at line 2, column 7`, "{\"a\":\n [1, 2", "Send the arguments complete: the text ends before the object does"},
		{"single quotes", `{'a':1}`, "", where + `a name in double quotes or "}" at line 1, column 2`, `{'a':1}`, "Put names and strings in straight double quotes"},
		{"a name without quotes", `{a:1}`, "", where + `a name in double quotes or "}" at line 1, column 2`, `{a:1}`, "Put the name in double quotes"},
		{"a name without quotes that begins like null", `{name:1}`, "", where + `a name in double quotes or "}" at line 1, column 2`, `{name:1}`, "Put the name in double quotes"},
		{"a second one that begins like true", `{"a":1, text:2}`, "", where + `a name in double quotes at line 1, column 9`, `{"a":1, text:2}`, "Put the name in double quotes"},
		{"a text without quotes", `{"a":Berlin}`, "a", where + `a value at line 1, column 6`, `{"a":Berlin}`, "Put text in double quotes: only numbers, true, false and null stand without"},
		{"a text without quotes that begins like false", `{"a":[frankfurt]}`, "a[0]", where + `a value or "]" at line 1, column 7`, `{"a":[frankfurt]}`, "Put text in double quotes: only numbers, true, false and null stand without"},
		{"null cut short", `{"a":nul}`, "a", where + `a value at line 1, column 6`, `{"a":nul}`, "Put text in double quotes: only numbers, true, false and null stand without"},
		{"null cut short before another", `{"a":1,"b":nul ,"c":2}`, "b", where + `a value at line 1, column 12`, `{"a":1,"b":nul ,"c":2}`, "Put text in double quotes: only numbers, true, false and null stand without"},
		{"prose that begins like true", "the order A-1", "", where + `a JSON object, beginning with { at line 1, column 1`, "the order A-1", "Write a JSON object, beginning with { there"},
		{"a comma too many", `{"a":[1,2,]}`, "a", where + `a value at line 1, column 11`, `{"a":[1,2,]}`, "Remove the comma before the closing bracket"},
		{"a comma too many in an object", `{"a":1,}`, "", where + `a name in double quotes at line 1, column 8`, `{"a":1,}`, "Remove the comma before the closing bracket"},
		{"a comma missing", `{"a":1 "b":2}`, "", where + `"," or "}" at line 1, column 8`, `{"a":1 "b":2}`, `Write "," or "}" there`},
		{"a colon missing", `{"a" 1}`, "a", where + `":" at line 1, column 6`, `{"a" 1}`, `Write ":" there`},
		{"Python's True", `{"a":True}`, "a", where + `a value at line 1, column 6`, `{"a":True}`, "Write true, false and null in lower case"},
		{"NaN", `{"a":NaN}`, "a", where + `a value at line 1, column 6`, `{"a":NaN}`, "Send a number or null: JSON has no NaN, Infinity or undefined"},
		{"a number without its zero", `{"a":.5}`, "a", where + `a value at line 1, column 6`, `{"a":.5}`, "Write the number as JSON does, such as 0.5 or 10, without a leading + or 0"},
		{"a line break in a string", "{\"a\":\"x\ny\"}", "a", where + `no line break or other control character inside a string, but its escape such as \n or \t at line 1, column 8`, "{\"a\":\"x\ny\"}", `Escape the control character, a line break as \n`},
		{"a bad escape", `{"p":"C:\dir"}`, "p", where + `a valid escape such as \", \\, \n or \u00e9 at line 1, column 9`, `{"p":"C:\dir"}`, `Write a backslash inside a string as \\`},
		{"half a surrogate pair", `{"p":"x\ud800y"}`, "p", where + `both halves of a surrogate pair at line 1, column 8`, `{"p":"x\ud800y"}`, `Write the character itself, or both halves of it as in \ud83d\ude00, or leave the lone half \ud800 out`},
		{"the other half alone", `{"p":["\uDC00"]}`, "p[0]", where + `both halves of a surrogate pair at line 1, column 8`, `{"p":["\uDC00"]}`, `Write the character itself, or both halves of it as in \ud83d\ude00, or leave the lone half \uDC00 out`},
		{"half a pair in a name", `{"\ud83d":1}`, "", where + `both halves of a surrogate pair at line 1, column 3`, `{"\ud83d":1}`, `Write the character itself, or both halves of it as in \ud83d\ude00, or leave the lone half \ud83d out`},
		{"an escape cut short", `{"p":"\u12"}`, "p", where + `a valid escape such as \", \\, \n or \u00e9 at line 1, column 7`, `{"p":"\u12"}`, `Write a backslash inside a string as \\, or \u with four hex digits`},
		{"brackets mixed up", `{"a":[1,2}`, "a", where + `"," or "]" at line 1, column 10`, `{"a":[1,2}`, "Close every bracket with its own kind"},
		{"a second object", `{"a":1} {"b":2}`, "", where + `the end of the arguments at line 1, column 9`, `{"a":1} {"b":2}`, "Remove everything after the closing brace of the first object"},
		{"a code fence", "```json\n{}\n```", "", where + `a JSON object, beginning with { at line 1, column 1`, "```json\n{}\n```", "Send the JSON object alone, without a code fence"},
		{"a comment", "{\"a\":1, // one\n}", "", where + `a name in double quotes at line 1, column 9`, "{\"a\":1, // one\n}", "Remove the comment, JSON has none"},
		{"prose", "I will call it.", "", where + `a JSON object, beginning with { at line 1, column 1`, "I will call it.", "Write a JSON object, beginning with { there"},
		{"a name twice", `{"a":{"b":[{"c":1,"c":2}]}}`, "a.b[0].c", `an object may hold each name once; the second is at line 1, column 19`, `{"a":{"b":[{"c":1,"c":2}]}}`, `Send "c" once, with the value that you mean`},
		{"a number that nothing holds", `{"a":1e999}`, "a", `a number is out of range: expected one between -1.8e308 and 1.8e308 at line 1, column 11`, `{"a":1e999}`, "Send a number that is closer to zero"},
		{"a number that is next to nothing", `{"a":1e-500}`, "a", `a number is too close to zero: expected 0, or one with an exponent of at least -400 at line 1, column 12`, `{"a":1e-500}`, "Send 0"},
		{"a number of many digits", `{"a":0.` + strings.Repeat("1", 500) + `}`, "a", `a number is too long: expected one of at most 400 characters at line 1, column 508`, "…" + strings.Repeat("1", 40) + "}", "Send fewer digits"},
		{"an array", `[{"a":1}]`, "", `type: "object"`, `[{"a":1}]`, "Send one JSON object with the arguments by name, not an array"},
		{"an object in a string", `"{\"a\":1}"`, "", `type: "object"`, `"{\"a\":1}"`, "Send the JSON object itself, not a string that contains it"},
		{"a bare string", `"Berlin"`, "", `type: "object"`, `"Berlin"`, `Send one JSON object with the arguments by name, such as {"name": "value"}`},
		{"null", `null`, "", `type: "object"`, `null`, `Send one JSON object with the arguments by name, such as {"name": "value"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, violation := schema.ParseArgs("create_ticket", c.text)
			if violation == nil {
				t.Fatal("was accepted")
			}
			want := []complaint{{c.field, c.constraint, c.received, c.hint}}
			if diff := cmp.Diff(want, toComplaints(t, []tool.Error{*violation}), cmp.AllowUnexported(complaint{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseArgsIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"depth":         `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		"depth at once": `{"a":` + strings.Repeat(`{"a":`, schema.MaxDepth) + "1" + strings.Repeat("}", schema.MaxDepth) + `}`,
		"values":        `{"a":[` + strings.Repeat("1,", schema.MaxValues) + `1]}`,
		"number":        `{"a":` + strings.Repeat("9", 100_000) + `}`,
		"exponent":      `{"a":1e-999999999}`,
	} {
		if _, violation := schema.ParseArgs("t", text); violation == nil {
			t.Errorf("%s: was accepted", name)
		} else if len(violation.Received) > 1000 || len(violation.Hint) > 200 {
			t.Errorf("%s: long violation %+v", name, violation)
		}
	}
	fits := `{"a":` + strings.Repeat(`[`, schema.MaxDepth-1) + strings.Repeat("]", schema.MaxDepth-1) + `}`
	if _, violation := schema.ParseArgs("t", fits); violation != nil {
		t.Errorf("the greatest depth: %+v", violation)
	}
}

func TestParseArgsRefusesInvalidUTF8(t *testing.T) {
	for _, text := range []string{"{\"a\":\"\xff\"}", "{\"\xc3\":1}", "\xff", `{"a":"\ud800"}`} {
		_, violation := schema.ParseArgs("t", text)
		if violation == nil {
			t.Errorf("%q was accepted", text)
			continue
		}
		if s := fmt.Sprintf("%v", *violation); strings.ToValidUTF8(s, "?") != s {
			t.Errorf("%q is answered with invalid UTF-8", text)
		}
	}
}

func TestParseArgsOfASchemaWithSecretsRepeatsNothing(t *testing.T) {
	s := mustCompile(t, `{"properties":{"auth":{"properties":{"token":{"writeOnly":true}}}}}`, schema.Options{})
	_, violation := s.ParseArgs(`{"auth":{"token":"hunter2"`)
	if violation == nil || violation.Received != tool.ReceivedRedacted || strings.Contains(fmt.Sprint(*violation), "hunter2") {
		t.Errorf("%+v", violation)
	}
}
