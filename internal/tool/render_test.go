package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

var low = tool.Error{
	Code:       tool.CodeInvalidArgs,
	Field:      "priority",
	Constraint: `enum: ["low","high"]`,
	Received:   `"hihg <&>"`,
	Hint:       `Did you mean "high"? Set priority to "high", then call create_ticket again.`,
}

func TestRenderErrorHasFiveKeysInOrder(t *testing.T) {
	got := tool.RenderError(low, nil)
	want := `{"code":"INVALID_ARGS","field":"priority","constraint":"enum: [\"low\",\"high\"]",` +
		`"received":"\"hihg <&>\"","hint":"Did you mean \"high\"? Set priority to \"high\", then call create_ticket again."}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRenderErrorKeepsEmptyFields(t *testing.T) {
	if got := tool.RenderError(tool.Error{}, nil); got != `{"code":"","field":"","constraint":"","received":"","hint":""}` {
		t.Error(got)
	}
}

func TestRenderErrorListsMore(t *testing.T) {
	got := tool.RenderError(low, []tool.Error{low, low})
	var decoded struct {
		tool.Error
		More []tool.Error `json:"more"`
	}
	if err := json.Unmarshal([]byte(got), &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Error != low || len(decoded.More) != 2 || decoded.More[1] != low {
		t.Errorf("%+v", decoded)
	}
}

func TestRenderErrorEscapes(t *testing.T) {
	e := tool.Error{Hint: "a\"b\\c\n\r\t\x00\x1f\xff é \u2028 😀"}
	got := tool.RenderError(e, nil)
	var decoded tool.Error
	if err := json.Unmarshal([]byte(got), &decoded); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if want := strings.ToValidUTF8(e.Hint, "\uFFFD"); decoded.Hint != want {
		t.Errorf("got %q, want %q", decoded.Hint, want)
	}
}

// What a sidecar has said of a call is read again, whatever stands behind it, and nothing
// else is taken for it.
func TestParseError(t *testing.T) {
	text := tool.RenderError(low, []tool.Error{low})
	for _, said := range []string{text, text + "\n\nand more", tool.RenderError(low, nil)} {
		if got, ok := tool.ParseError(said); !ok || got != low {
			t.Errorf("%s: %+v %v", said, got, ok)
		}
	}
	for _, other := range []string{
		"", "paid", "{}", " " + text, text[:len(text)-2], `{"code":"NONE","field":"","constraint":"","received":"","hint":""}`,
		`{"code":"CANCELLED","field":"","constraint":"","received":""}`, `{"code":"CANCELLED","field":"","constraint":"","received":"","hint":"","x":1}`,
		`{"code":1,"field":"","constraint":"","received":"","hint":""}`,
	} {
		if got, ok := tool.ParseError(other); ok {
			t.Errorf("%s: %+v", other, got)
		}
	}
}
