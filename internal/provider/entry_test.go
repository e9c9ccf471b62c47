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
	if _, err := ReadEntry(`{"role":1}`); err == nil || err.Error() != "at /role: expected a string, found a number" {
		t.Error(err)
	}
	if _, err := ReadEntry(`{"role":"a","role":"b"}`); err == nil || !strings.Contains(err.Error(), `duplicate object member name "role"`) || strings.Contains(err.Error(), "jsontext") {
		t.Error(err)
	}
}
