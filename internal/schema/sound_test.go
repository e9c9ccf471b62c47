package schema

import (
	"encoding/json"
	"os"
	"testing"
)

func TestSoundAcceptsWhatToolsUsuallySend(t *testing.T) {
	text, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var tools []struct {
		Name        string
		InputSchema json.RawMessage
	}
	if err := json.Unmarshal(text, &tools); err != nil {
		t.Fatal(err)
	}
	unsure := 0
	for _, tool := range tools {
		doc, f := parseValue(tool.InputSchema, true)
		if f != nil {
			t.Fatal(f.err)
		}
		if !sound(doc, patterns{}) {
			t.Logf("%s is left to the library", tool.Name)
			unsure++
			continue
		}
		if _, fail := compile(tool.Name, doc, nil, true, nil); fail != nil {
			t.Errorf("%s was called sound: %v", tool.Name, fail)
		}
	}
	if unsure > len(tools)/10 {
		t.Errorf("%d of %d schemas are left to the library", unsure, len(tools))
	}
}

func TestSoundLeavesTheRestToTheLibrary(t *testing.T) {
	for _, source := range []string{
		`true`, `{"type":"strnig"}`, `{"type":[]}`, `{"type":["string","string"]}`, `{"pattern":"("}`, `{"pattern":1}`, `{"minLength":-1}`, `{"minLength":1.5}`,
		`{"multipleOf":0}`, `{"required":["a","a"]}`, `{"required":[1]}`, `{"required":"a"}`, `{"properties":[]}`, `{"properties":{"a":1}}`, `{"patternProperties":{"(":{}}}`,
		`{"allOf":[]}`, `{"allOf":{}}`, `{"items":[{}]}`, `{"enum":1}`, `{"$ref":"#/nowhere"}`, `{"$ref":"#/$defs/x"}`, `{"$ref":"x.json"}`, `{"$id":"a"}`, `{"$anchor":"a"}`,
		`{"$dynamicRef":"#a"}`, `{"$schema":"http://json-schema.org/draft-04/schema#"}`, `{"$schema":1}`, `{"properties":{"a":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}}`,
		`{"title":1}`, `{"uniqueItems":1}`, `{"minimum":"1"}`, `{"dependentRequired":{"a":"b"}}`, `{"dependencies":{}}`, `{"id":"x"}`, `{"if":1}`,
	} {
		doc, f := parseValue([]byte(source), true)
		if f != nil {
			t.Fatal(source)
		}
		if sound(doc, patterns{}) {
			t.Errorf("%s was called sound", source)
		}
	}
}
