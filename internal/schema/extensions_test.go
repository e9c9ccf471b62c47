package schema

import (
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The library compares items in pairs where their hashes are alike, and they can be made
// so: ["a","a"] is like ["a\u0004a"] to it. 700 KB of such items took more than a second.
func TestTheLibraryComparesNoItems(t *testing.T) {
	s, err := Compile("t", []byte(`{"properties":{"a":{"items":{"uniqueItems":true}},"b":{"$ref":"#/$defs/b"}},"$defs":{"b":{"uniqueItems":true}}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	eachSchema(s.root(), func(one *jsonschema.Schema) {
		if one.UniqueItems {
			t.Errorf("%s: it does", one.Location)
		}
	})
	for text, want := range map[string]string{
		`{"b":[]}`:  "",
		`{"b":"x"}`: "",
		`{"b":[["a","a"],["a\u0004a"],1,"1",true,null,{"a":1},{"a":2},[],{},0.5]}`: "",
		`{"b":[2,1,1.0]}`: "items at 1 and 2",
		`{"a":[[],[{"a":1,"b":2},{"b":2e0,"a":1}]]}`: "items at 0 and 1",
	} {
		args, _ := s.ParseArgs(text)
		_, _, violations := s.Check(args)
		if got := len(violations) > 0; got != (want != "") {
			t.Errorf("%s: %+v", text, violations)
		}
	}
}
