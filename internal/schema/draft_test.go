package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

func TestWhatASchemaSaysOfAName(t *testing.T) {
	const never, open, mentioned, required = "never", "open", "mentioned", "required"
	for source, want := range map[string]string{
		`{}`:                              open,
		`true`:                            open,
		`false`:                           never,
		`not JSON`:                        open,
		`{"properties":{"x":{}}}`:         mentioned,
		`{"properties":{"x":false}}`:      never,
		`{"additionalProperties":false}`:  never,
		`{"additionalProperties":{}}`:     mentioned,
		`{"unevaluatedProperties":false}`: never,
		`{"properties":{"x":{}},"additionalProperties":false}`:                                                     mentioned,
		`{"properties":{"x":{}},"required":["x"]}`:                                                                 required,
		`{"patternProperties":{"^x":{}},"additionalProperties":false}`:                                             mentioned,
		`{"patternProperties":{"^y":{}},"additionalProperties":false}`:                                             never,
		`{"propertyNames":{"enum":["y"]}}`:                                                                         never,
		`{"propertyNames":{"pattern":"^y"}}`:                                                                       never,
		`{"propertyNames":{"pattern":"^x"}}`:                                                                       open,
		`{"allOf":[{"properties":{"x":{}},"required":["x"]}]}`:                                                     required,
		`{"allOf":[{"additionalProperties":false}]}`:                                                               never,
		`{"allOf":[{"properties":{"x":{}}}],"unevaluatedProperties":false}`:                                        mentioned,
		`{"anyOf":[{"additionalProperties":false},{"properties":{"x":{}}}]}`:                                       mentioned,
		`{"anyOf":[{"additionalProperties":false},{"properties":{"y":{}},"additionalProperties":false}]}`:          never,
		`{"oneOf":[{"additionalProperties":false}]}`:                                                               never,
		`{"if":{},"then":{"properties":{"x":{}}},"unevaluatedProperties":false}`:                                   mentioned,
		`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{}},"additionalProperties":false,"required":["x"]}}}`: required,
		`{"$ref":"#/$defs/a","$defs":{"a":{"additionalProperties":false}}}`:                                        never,
		`{"$ref":"#"}`:                       open, // recursion ends
		`{"$ref":"http://127.0.0.1/x.json"}`: open,
		`{"dependentSchemas":{"y":{"properties":{"x":{}}}},"unevaluatedProperties":false}`: mentioned,
	} {
		d := schema.ReadDraft([]byte(source))
		got := open
		switch {
		case d.Never("x"):
			got = never
		case d.Requires("x"):
			got = required
		case d.Mentions("x"):
			got = mentioned
		}
		if got != want {
			t.Errorf("%s: x is %s, want %s", source, got, want)
		}
	}
}

// What is refused although the schema does not say so is refused.
func TestWhatIsEnforcedOfADraft(t *testing.T) {
	const plain = `{"type":"object","properties":{"x":{}}}`
	for forward, want := range map[bool]bool{false: true, true: false} {
		_, d, err := schema.CompileDraft("t", []byte(plain), schema.Options{Closed: !forward})
		if err != nil || d.Never("y") != want || d.Enforced() != want || d.Closed() || d.Never("x") || !d.Mentions("x") {
			t.Errorf("forwarded %v: %v", forward, err)
		}
	}
}

// References that multiply, and lead in circles, cost no more than others.
func TestADraftOfManyReferencesIsBounded(t *testing.T) {
	d := schema.ReadDraft([]byte(`{"allOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}],"anyOf":[{"$ref":"#"},{"$ref":"#"}],"unevaluatedProperties":false}`))
	if d.Mentions("x") || len(d.Names()) > 0 || len(d.Required()) > 0 {
		t.Error("nothing is there")
	}
	_ = d.Never("x") // whatever it says: it says it
}

// What the text says can never be is refused by the compiled schema.
func TestNeverIsNever(t *testing.T) {
	for _, one := range corpus(t) {
		d, s := schema.ReadDraft(one.InputSchema), mustCompile(t, string(one.InputSchema), schema.Options{})
		args, ok := s.Example(true)
		if !ok {
			continue
		}
		for name := range args {
			if d.Never(name) {
				t.Errorf("%s: %s can be there", one.Name, name)
			}
		}
		args["nobodys_name"] = 1
		if _, _, violations := s.Check(args); d.Closed() && len(violations) == 0 {
			t.Errorf("%s takes a name although it is closed", one.Name)
		}
	}
}

func TestMisspeltKeywords(t *testing.T) {
	for word, want := range map[string]string{
		"propertys": "properties", "propertis": "properties", "property": "", "Properties": "properties",
		"requird": "required", "require": "required", "requires": "required", "minlength": "minLength", "min_length": "minLength", "min-length": "minLength",
		"maxlenght": "maxLength", "additionalPropertys": "additionalProperties", "additionalProperty": "additionalProperties", "additionalproperties": "additionalProperties",
		"fromat": "format", "foramt": "format", "patern": "pattern", "tpye": "type", "types": "type", "enums": "enum", "emun": "enum", "item": "items",
		"anyof": "anyOf", "one_of": "oneOf", "ref": "$ref", "minimumm": "minimum", "exclusiveMin": "", "uniqueItem": "uniqueItems",
		// words of the author's own
		"x-order": "", "x-type": "", "cost": "", "count": "", "note": "", "minimal": "", "example": "", "nullable": "", "unit": "", "hint": "", "label": "", "group": "",
		"widget": "", "placeholder": "", "enumNames": "", "min": "", "max": "", "step": "", "name": "", "order": "", "constant": "", "when": "", "elsewhere": "", "cast": "",
	} {
		found := schema.ReadDraft(fmt.Appendf(nil, `{"properties":{"propertys":{"%s":1}}}`, word)).Misspellings()
		got := ""
		if len(found) > 0 {
			got = found[0].Meant
			if found[0].Pointer != "/properties/propertys/"+word || found[0].Word != word || len(found) > 1 {
				t.Errorf("%s: %+v", word, found)
			}
		}
		if got != want {
			t.Errorf("%s: taken for %q, want %q", word, got, want)
		}
	}
}

// Values, names of properties and definitions are no keywords, wherever they are.
func TestWhereKeywordsStand(t *testing.T) {
	found := schema.ReadDraft([]byte(`{"$defs":{"tpye":{"tpye":1}},"default":{"tpye":1},"enum":[{"tpye":1}],"examples":[{"tpye":1}],"const":{"tpye":1},
		"items":[{"tpye":1}],"anyOf":[{},{"tpye":1}],"not":{"tpye":1},"additionalProperties":{"tpye":1},"patternProperties":{"a/b~":{"tpye":1}},
		"unknown":{"tpye":1},"dependencies":{"tpye":["tpye"],"b":{"tpye":1}}}`)).Misspellings()
	var at []string
	for _, one := range found {
		at = append(at, strings.TrimSuffix(one.Pointer, "/tpye"))
	}
	slices.Sort(at)
	want := []string{"/$defs/tpye", "/additionalProperties", "/anyOf/1", "/dependencies/b", "/items/0", "/not", "/patternProperties/a~1b~0"}
	if !slices.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
}

// What real servers and the drafts themselves write is not taken for a mistake.
func TestNoSchemaOfTheCorpusIsMisspelt(t *testing.T) {
	for _, one := range corpus(t) {
		if found := schema.ReadDraft(one.InputSchema).Misspellings(); len(found) > 0 {
			t.Errorf("%s: %+v", one.Name, found)
		}
	}
	text, err := os.ReadFile("../config/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if found := schema.ReadDraft(text).Misspellings(); len(found) > 0 || !json.Valid(text) {
		t.Errorf("%+v", found)
	}
}

// 190 KB of schema took 3.5 GB: a thousand references to one list of twenty thousand names.
func TestNamesOfADraftAreCollectedOnce(t *testing.T) {
	for _, names := range []string{`"required":[` + repeated(20_000, `"n#"`) + `]`, `"properties":{` + repeated(20_000, `"n#":{}`) + `}`} {
		d := schema.ReadDraft([]byte(strings.ReplaceAll(`{"allOf":[`+repeated(1000, `{"$ref":"ROOT/$defs/A"}`)+`],"$defs":{"A":{`+names+`}}}`, "ROOT", "#")))
		var found int
		if bytes := allocated(func() { found = len(d.Required()) + len(d.Names()) }); bytes > 20<<20 || found != 20_000 {
			t.Errorf("%d names took %d bytes", found, bytes)
		}
	}
}
