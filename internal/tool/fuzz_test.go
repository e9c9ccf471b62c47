package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

// FuzzRenderError: whatever the five fields hold, the model reads one JSON
// object that has exactly these, in their order, and says the same.
func FuzzRenderError(f *testing.F) {
	f.Add("INVALID_ARGS", "a", "enum: [1]", `"x"`, "Do it again.", "more")
	f.Add("\xff", "\"\\", "\x00\x1f\u2028", "\ud7ff\U0010ffff", "\n\t\r", "")
	f.Fuzz(func(t *testing.T, code, field, constraint, received, hint, other string) {
		first := tool.Error{Code: tool.Code(code), Field: field, Constraint: constraint, Received: received, Hint: hint}
		second := tool.Error{Code: tool.Code(other), Hint: other}
		for _, more := range [][]tool.Error{nil, {second}} {
			text := tool.RenderError(first, more)
			var got struct {
				tool.Error
				More []tool.Error `json:"more"`
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil || !utf8.ValidString(text) {
				t.Fatalf("%q: %v", text, err)
			}
			if diff := cmp.Diff(valid(first), got.Error); diff != "" || len(got.More) != len(more) {
				t.Errorf("%q: %s", text, diff)
			}
			at := 0
			for _, key := range []string{`{"code":`, `,"field":`, `,"constraint":`, `,"received":`, `,"hint":`} {
				i := strings.Index(text[at:], key)
				if i < 0 {
					t.Fatalf("%q lacks %s in its place", text, key)
				}
				at += i + len(key)
			}
		}
	})
}

// valid is the error with what UTF-8 cannot say replaced.
func valid(e tool.Error) tool.Error {
	fix := func(s string) string { return string([]rune(s)) } // one U+FFFD for each bad byte
	return tool.Error{Code: tool.Code(fix(string(e.Code))), Field: fix(e.Field), Constraint: fix(e.Constraint), Received: fix(e.Received), Hint: fix(e.Hint)}
}
