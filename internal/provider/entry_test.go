package provider

import (
	"strings"
	"testing"
)

// What is wrong with a message is said of its JSON: where, what was expected and what is there.
func TestFaultsSpeakOfTheJSON(t *testing.T) {
	for message, want := range map[string]string{
		`{"type":"message","role":"assistant","content":[{"type":"text"},{"type":"tool_use","id":5}]}`: "content: cannot be read: at /1/id: expected a string, found a number",
		`{"role":"assistant","tool_calls":[{"id":"a","function":"x"}]}`:                                "tool_calls: cannot be read: at /0/function: expected an object, found a string",
		`{"role":"assistant","tool_calls":[["a"]]}`:                                                    "tool_calls: cannot be read: at /0: expected an object, found an array",
		`{"object":"response","output":[{},{"type":"function_call","call_id":{}}]}`:                    "output[1]: cannot be read: at /call_id: expected a string, found an object",
		`{"object":"response","output":[true]}`:                                                        "output[0]: cannot be read: expected an object, found a boolean",
		`{"choices":[null,3]}`:                                                                         "choices: cannot be read: at /1: expected an object, found a number",
		`{"role":"assistant","content":[}`:                                                             "cannot be read: invalid character '}' at start of value within \"/content/0\" after offset 31",
		`{"id":tru}`:                                                                                   "cannot be read: invalid character '}' in literal true (expecting 'e') within \"/id\" after offset 9",
		`{"role":"assistant"`:                                                                          "cannot be read: unexpected EOF after offset 19",
	} {
		if _, err := Read(message); err == nil || err.Error() != want {
			t.Errorf("%s\nis told %v\nand not %s", message, err, want)
		}
	}
	for twice, at := range map[string]string{
		`{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","name":"pay","input":{}}]}`: "/content/0/name",
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{}","name":"pay"}}]}`:              "/tool_calls/0/function/name",
		`{"object":"response","output":[{"type":"function_call","call_id":"a","call_id":"b"}]}`:                                "/output/0/call_id",
		`{"role":"assistant","content":[],"content":[]}`:                                                                       "/content",
	} {
		if _, err := Read(twice); err == nil || err.Error() != "cannot be read: duplicate object member name at "+at {
			t.Errorf("%s is told %v", twice, err)
		}
	}
	turn, err := Read(`{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{"a":1,"a":2,"b":{"c":1,"c":2}}}]}`)
	if err != nil || turn.Calls[0].Arguments != `{"a":1,"a":2,"b":{"c":1,"c":2}}` { // which are for the schema to find fault with
		t.Errorf("%v, %v", turn, err)
	}
	if _, err := ReadEntry(`{"role":1}`); err == nil || err.Error() != "at /role: expected a string, found a number" {
		t.Error(err)
	}
	if _, err := ReadEntry(`{"role":"a","role":"b"}`); err == nil || !strings.Contains(err.Error(), `duplicate object member name "role"`) || strings.Contains(err.Error(), "jsontext") {
		t.Error(err)
	}
}
