package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const channels = `{"properties":{"channel":{"oneOf":[
	{"type":"object","properties":{"kind":{"const":"email"},"address":{"type":"string","format":"email"}},"required":["kind","address"],"additionalProperties":false},
	{"type":"object","properties":{"kind":{"const":"sms"},"number":{"type":"string","pattern":"^\\+[0-9]{6}$"}},"required":["kind","number"],"additionalProperties":false}
]}}}`

func TestUnionsAreReportedByTheNearestBranch(t *testing.T) {
	for _, c := range []struct {
		name, schema, args string
		want               []complaint
	}{
		{
			"the branch whose mark is there", channels, `{"channel":{"kind":"sms","number":"12"}}`,
			[]complaint{{"channel.number", `pattern: "^\\+[0-9]{6}$"`, `"12"`, `Send channel.number in the form that the pattern describes, e.g. "+111111"`}},
		},
		{
			"the mark decides although another branch complains less", channels, `{"channel":{"kind":"sms","address":"a@example.com"}}`,
			[]complaint{
				{"channel.number", `required: {"pattern":"^\\+[0-9]{6}$","type":"string"}`, `(missing)`, `Add "number", e.g. "+111111" (string)`},
				{"channel.address", `additionalProperties: ["kind","number"]`, `"a@example.com"`, `Remove "address"`},
			},
		},
		{
			"a misspelt mark lists those of all branches", channels, `{"channel":{"kind":"emial","address":"a@example.com"}}`,
			[]complaint{{"channel.kind", `enum: ["email","sms"]`, `"emial"`, `Did you mean "email"? Set channel.kind to one of the 2 allowed values`}},
		},
		{
			"an unknown mark: the branch that fits best otherwise", channels, `{"channel":{"kind":"fax","number":"+123456"}}`,
			[]complaint{{"channel.kind", `enum: ["email","sms"]`, `"fax"`, `Set channel.kind to one of the 2 allowed values, e.g. "sms"`}},
		},
		{
			"a missing mark", channels, `{"channel":{"number":"+123456"}}`,
			[]complaint{{"channel.kind", `required: {"enum":["sms","email"]}`, `(missing)`, `Add "kind", e.g. "sms"`}},
		},
		{
			"no branch of the type: all types", `{"properties":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"type":"null"}]}}}`, `{"v":5}`,
			[]complaint{{"v", `type: ["string","array","null"]`, `5`, `Send v as a string or an array, e.g. "5"`}},
		},
		{
			"the branch of the type", `{"properties":{"v":{"anyOf":[{"type":"string","format":"date"},{"type":"integer"},{"type":"null"}]}}}`, `{"v":"x"}`,
			[]complaint{{"v", `format: "date"`, `"x"`, `Send v in the format date (YYYY-MM-DD), e.g. "2026-11-21"`}},
		},
		{
			"branches of fixed values become one enum", `{"properties":{"v":{"anyOf":[{"const":"asc"},{"const":"desc"},{"enum":["none"]}]}}}`, `{"v":"dsc"}`,
			[]complaint{{"v", `enum: ["asc","desc","none"]`, `"dsc"`, `Did you mean "desc"? Set v to one of the 3 allowed values`}},
		},
		{
			"unions in unions", `{"properties":{"v":{"anyOf":[{"type":"null"},{"oneOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]}]}}}`, `{"v":[1,"2"]}`,
			[]complaint{{"v[1]", `type: "integer"`, `"2"`, `Send v[1] as an integer, not as a string, e.g. 2`}},
		},
		{
			"unions of a recursive schema choose anew at every level",
			`{"properties":{"f":{"$ref":"#/$defs/f"}},"$defs":{"f":{"oneOf":[
				{"properties":{"op":{"enum":["eq","ne"]},"v":{"type":"integer"}},"required":["op","v"],"additionalProperties":false},
				{"properties":{"op":{"enum":["and","or"]},"all":{"type":"array","items":{"$ref":"#/$defs/f"}}},"required":["op","all"],"additionalProperties":false}]}}}`,
			`{"f":{"op":"and","all":[{"op":"eq","v":1},{"op":"ne","v":"2"}]}}`,
			[]complaint{{"f.all[1].v", `type: "integer"`, `"2"`, `Send f.all[1].v as an integer, not as a string, e.g. 2`}},
		},
		{
			"at least one of several properties", `{"properties":{"width":{"type":"integer","minimum":1},"height":{"type":"integer"}},"anyOf":[{"required":["width"]},{"required":["height"]}]}`, `{}`,
			[]complaint{{"width", `required: {"minimum":1,"type":"integer"}`, `(missing)`, `Add "width", e.g. 1 (integer)`}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, complaints(t, c.schema, c.args), cmp.AllowUnexported(complaint{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
