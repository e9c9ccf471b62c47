package httptool

import "github.com/go-json-experiment/json/jsontext"

// appendJSONString writes text as a JSON string.
func appendJSONString(b []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(b, text)
	if err != nil {
		// Only for invalid UTF-8, which it has replaced by U+FFFD.
		return quoted
	}
	return quoted
}
