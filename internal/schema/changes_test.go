package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/schema"
)

// checked parses and checks text; it fails the test unless the call is accepted.
func checked(t *testing.T, source, text string, opts schema.Options) (string, []string) {
	t.Helper()
	s := mustCompile(t, source, opts)
	args, violation := s.ParseArgs(text)
	if violation != nil {
		t.Fatal(*violation)
	}
	before, err := schema.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	out, notes, violations := s.Check(args)
	if violations != nil {
		t.Fatalf("%s: %+v", text, violations)
	}
	if after, _ := schema.Canonical(args); string(after) != string(before) {
		t.Errorf("the arguments were changed from %s to %s", before, after)
	}
	got, err := schema.Canonical(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(got), notes
}

func TestOptionalNullsAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		name, schema, args, want string
		notes                    []string
	}{
		{"at the top", `{"properties":{"a":{"type":"string"},"b":{"enum":["x"]},"c":{"const":1}}}`, `{"a":null,"b":null,"c":null}`, `{}`,
			[]string{"left out a, which was null", "left out b, which was null", "left out c, which was null"}},
		{"where null is welcome it stays", `{"properties":{"a":{"type":["string","null"]},"b":{},"c":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, `{"a":null,"b":null,"c":null}`, `{"a":null,"b":null,"c":null}`, nil},
		{"nested", `{"properties":{"o":{"properties":{"a":{"type":"integer"}}}}}`, `{"o":{"a":null,"z":null}}`, `{"o":{"z":null}}`, []string{"left out o.a, which was null"}},
		{"in items", `{"properties":{"l":{"items":{"properties":{"a":{"type":"integer"}},"required":["k"]}}}}`, `{"l":[{"k":1,"a":null},{"k":2,"a":3}]}`, `{"l":[{"k":1},{"a":3,"k":2}]}`, []string{"left out l[0].a, which was null"}},
		{"in the branch that fits without it",
			`{"properties":{"u":{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"},"x":{"type":"string"}},"required":["kind"]}]}}}`,
			`{"u":{"kind":"b","x":null}}`, `{"u":{"kind":"b"}}`, []string{"left out u.x, which was null"}},
		{"a union without null", `{"properties":{"u":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"u":null}`, `{}`, []string{"left out u, which was null"}},
		{"a null that made another property required", `{"properties":{"a":{"type":"integer"},"b":{}},"dependentRequired":{"a":["b"]}}`, `{"a":null}`, `{}`, []string{"left out a, which was null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes := checked(t, c.schema, c.args, schema.Options{})
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if diff := cmp.Diff(c.notes, notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOtherNullsAreViolations(t *testing.T) {
	for _, c := range []struct {
		name, schema, args string
		want               []complaint
	}{
		{"required", `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`, `{"a":null,"b":null}`,
			[]complaint{{"a", `type: "string"`, `null`, `Send a as a string, not null, e.g. "text"`}}},
		{"an item", `{"properties":{"l":{"type":"array","items":{"type":"integer"}}}}`, `{"l":[1,null]}`,
			[]complaint{{"l[1]", `type: "integer"`, `null`, `Send l[1] as an integer, or leave it out if you may, e.g. 1`}}},
		{"required by the branch",
			`{"properties":{"u":{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}]}}}`,
			`{"u":{"kind":"a","x":null}}`,
			[]complaint{{"u.x", `type: "integer"`, `null`, `Send u.x as an integer, not null, e.g. 1`}}},
		{"with another violation, the harmless null is not one", `{"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`, `{"a":null,"b":"x"}`,
			[]complaint{{"b", `type: "integer"`, `"x"`, `Send b as an integer, not as a string, e.g. 1`}}},
		{"of a property that nobody knows", `{"properties":{"a":{}},"additionalProperties":false}`, `{"zzz":null}`,
			[]complaint{{"zzz", `additionalProperties: ["a"]`, `null`, `Remove "zzz"`}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, complaints(t, c.schema, c.args), cmp.AllowUnexported(complaint{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCoerceTakesLosslessSpellings(t *testing.T) {
	const source = `{"properties":{
		"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},"z":{"type":"null"},
		"e":{"enum":[1,2,true]},"u":{"anyOf":[{"type":"integer"},{"type":"boolean"}]},"l":{"items":{"type":"integer"}}},"required":["z"]}`
	for _, c := range []struct{ args, want string }{
		{`{"z":null,"i":"5"}`, `{"i":5,"z":null}`},
		{`{"z":null,"i":"-12.0"}`, `{"i":-12,"z":null}`},
		{`{"z":null,"i":"12345678901234567890"}`, `{"i":12345678901234567890,"z":null}`},
		{`{"z":null,"n":"1.5e3","b":"true"}`, `{"b":true,"n":1500,"z":null}`},
		{`{"z":null,"s":5,"b":"false"}`, `{"b":false,"s":"5","z":null}`},
		{`{"z":"null"}`, `{"z":null}`},
		{`{"z":null,"e":"2"}`, `{"e":2,"z":null}`},
		{`{"z":null,"e":"true"}`, `{"e":true,"z":null}`},
		{`{"z":null,"u":"7"}`, `{"u":7,"z":null}`},
		{`{"z":null,"u":"true"}`, `{"u":true,"z":null}`},
		{`{"z":null,"l":["1",2,"3"]}`, `{"l":[1,2,3],"z":null}`},
		{`{"z":null,"i":"5","s":null}`, `{"i":5,"z":null}`},
	} {
		got, notes := checked(t, source, c.args, schema.Options{Coerce: true})
		if got != c.want || len(notes) == 0 {
			t.Errorf("%s: got %s %v, want %s", c.args, got, notes, c.want)
		}
	}
	if _, notes := checked(t, source, `{"z":null,"i":"5"}`, schema.Options{Coerce: true}); notes[0] != "took i, a string, for a number" {
		t.Error(notes)
	}
}

func TestNothingElseIsCoerced(t *testing.T) {
	const source = `{"properties":{"i":{"type":"integer","maximum":9},"b":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"}}}`
	for _, c := range []struct {
		args   string
		coerce bool
	}{
		{`{"i":"5"}`, false}, {`{"s":5}`, false}, {`{"b":"true"}`, false},
		{`{"i":" 5"}`, true}, {`{"i":"5 "}`, true}, {`{"i":"5.5"}`, true}, {`{"i":"five"}`, true}, {`{"i":"0x5"}`, true}, {`{"i":"05"}`, true}, {`{"i":"10"}`, true},
		{`{"i":"1e999"}`, true}, {`{"i":true}`, true}, {`{"b":"yes"}`, true}, {`{"b":1}`, true}, {`{"b":"True"}`, true}, {`{"s":true}`, true}, {`{"s":["x"]}`, true}, {`{"l":"x"}`, true},
	} {
		s := mustCompile(t, source, schema.Options{Coerce: c.coerce})
		args, _ := s.ParseArgs(c.args)
		if got, _, violations := s.Check(args); violations == nil {
			t.Errorf("%s was taken for %v", c.args, got)
		}
	}
}

func TestACoercedValueIsReportedAsItWasSent(t *testing.T) {
	s := mustCompile(t, `{"properties":{"i":{"type":"integer","maximum":9}}}`, schema.Options{Coerce: true})
	args, _ := s.ParseArgs(`{"i":"10"}`)
	_, _, violations := s.Check(args)
	if len(violations) != 1 || violations[0].Received != `"10"` || violations[0].Constraint != "maximum: 9" {
		t.Errorf("%+v", violations)
	}
}
