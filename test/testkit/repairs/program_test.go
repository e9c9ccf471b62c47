package repairs

import (
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestProgramMakesTheEditThatTheFieldsAskFor(t *testing.T) {
	for _, c := range []struct {
		name, sent              string
		field, constraint, hint string
		want                    string
	}{
		{"an example", `{"n":"5"}`, "n", `type: "integer"`, `Send n as an integer, e.g. 5, then call x again.`, `{"n":5}`},
		{"an example of a sentence", `{"n":"5"}`, "n", `the number is odd`, `Send it even, e.g. [{"a":1}], then call x again.`, `{"n":[{"a":1}]}`},
		{"the value that was meant", `{"p":"hihg"}`, "p", `enum: ["low","high"]`, `Did you mean "high"? Set p.`, `{"p":"high"}`},
		{"a name with quotes in it", `{"a":1}`, "a", `additionalProperties: ["b\"c"]`, `Did you mean "b\"c"? Rename.`, `{"b\"c":1}`},
		{"a name", `{"o":{"tz":1}}`, "o.tz", `additionalProperties: ["zone"]`, `Did you mean "zone"? Rename.`, `{"o":{"zone":1}}`},
		{"an unknown property", `{"a":1,"b":2}`, "b", `additionalProperties: ["a"]`, `Remove "b".`, `{"a":1}`},
		{"a missing property with an example", `{}`, "a.b", `required: {"type":"string"}`, `Add "b", e.g. "x".`, `{"a":{"b":"x"}}`},
		{"a missing property from its schema", `{}`, "a", `required: {"type":"integer","minimum":3}`, `Add "a".`, `{"a":3}`},
		{"a missing object from its schema", `{}`, "a", `required: {"type":"object","properties":{"k":{"enum":["v"]}},"required":["k"]}`, `Add "a".`, `{"a":{"k":"v"}}`},
		{"a missing property under another name", `{"time_zone":"UTC"}`, "timezone", `required: {"type":"string"}`, `Did you mean "timezone"? Rename.`, `{"timezone":"UTC"}`},
		{"an item", `{"l":[{"a":1},{"a":"x"}]}`, "l[1].a", `type: "integer"`, `e.g. 2`, `{"l":[{"a":1},{"a":2}]}`},
		{"a quoted name", `{"a.b":{"c d":1}}`, `["a.b"]["c d"]`, `type: "string"`, `e.g. "1"`, `{"a.b":{"c d":"1"}}`},
		{"too long", `{"s":"äbcdef"}`, "s", `maxLength: 3`, `Shorten s.`, `{"s":"äbc"}`},
		{"too short", `{"s":"a"}`, "s", `minLength: 3`, `Send more.`, `{"s":"axx"}`},
		{"too many", `{"l":[1,2,3]}`, "l", `maxItems: 2`, `Send less.`, `{"l":[1,2]}`},
		{"repeated", `{"l":[1,2,1]}`, "l", `uniqueItems: true`, `Remove.`, `{"l":[1,2]}`},
		{"too small", `{"n":1}`, "n", `minimum: 2.5`, `Set n.`, `{"n":2.5}`},
		{"const", `{"n":1}`, "n", `const: {"a":[]}`, `Set n.`, `{"n":{"a":[]}}`},
		{"enum", `{"n":1}`, "n", `enum: [7,8]`, `Set n.`, `{"n":7}`},
		{"contains", `{"l":[1]}`, "l", `contains: {"const":"x"}`, `Add.`, `{"l":[1,"x"]}`},
		{"one item too many", `{"l":[1,2,3]}`, "l[1]", `maxContains: 1`, `Remove l[1].`, `{"l":[1,3]}`},
		{"not both", `{"a":1,"b":2}`, "", `not: {"required":["a","b"]}`, `Change.`, `{"a":1}`},
		{"one of two", `{"a":1,"b":2}`, "", `oneOf: [{"required":["a"]},{"required":["b"]}]`, `Send one.`, `{"a":1}`},
		{"JSON in a string", `{"o":"{\"a\":1}"}`, "o", `type: "object"`, `Send JSON.`, `{"o":{"a":1}}`},
		{"one value for an array", `{"l":1}`, "l", `type: "array"`, `Send an array.`, `{"l":[1]}`},
		{"a sentence without help", `{"a":1}`, "a", `something is wrong`, `Think.`, `{"a":1}`},
		{"the whole", `{"a":1}`, "", `minProperties: 2`, `e.g. {"a":1,"b":2}`, `{"a":1,"b":2}`},
		{"a path that nobody can read", `{"a":1}`, "a[", `type: "string"`, `e.g. "x"`, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := parsed(t, c.sent)
			got := Program(sent, []tool.Error{{Code: tool.CodeInvalidArgs, Field: c.field, Constraint: c.constraint, Hint: c.hint}})
			if encode(got) != c.want {
				t.Errorf("got %s, want %s", encode(got), c.want)
			}
			if encode(sent) != encode(parsed(t, c.sent)) {
				t.Errorf("the rejected arguments were changed to %s", encode(sent))
			}
		})
	}
}

func TestProgramMakesEditsInOrder(t *testing.T) {
	got := Program(parsed(t, `{"cuont":"5","l":["x","x","x"]}`), []tool.Error{
		{Field: "cuont", Constraint: `type: "integer"`, Hint: `e.g. 5`},
		{Field: "cuont", Constraint: `additionalProperties: ["count"]`, Hint: `Did you mean "count"?`},
		{Field: "l[1]", Constraint: `maxContains: 1`},
		{Field: "l[2]", Constraint: `maxContains: 1`},
	})
	if want := `{"count":5,"l":["x"]}`; encode(got) != want {
		t.Errorf("got %s, want %s", encode(got), want)
	}
}
