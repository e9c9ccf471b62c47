package mcpresult

import (
	"encoding/json"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Each kind of block, and each word beside the text, has its place in a result.
func TestOf(t *testing.T) {
	for want, res := range map[string]*sidecallv1.ExecuteToolResponse{
		`{"content":[{"type":"text","text":""}]}`: {},
		`{"_meta":{"dev.sidecall/replayed":true},"content":[{"type":"text","text":"paid"}],"structuredContent":{"a":1.0}}`: {
			Content: "paid", StructuredContentJson: `{"a":1.0}`, Replayed: true,
		},
		`{"content":[{"type":"resource","resource":{"uri":"u:2","blob":""}}]}`: { // an empty file
			Blocks: []*sidecallv1.ContentBlock{{Type: "resource", Uri: "u:2"}},
		},
		`{"content":[{"type":"text","text":"no"}],"structuredContent":{"code":"NOT_FOUND","field":"f","constraint":"c","received":"r","hint":"h"},"isError":true}`: {
			Content: "no", IsError: true, Error: &sidecallv1.ToolError{Code: "NOT_FOUND", Field: "f", Constraint: "c", Received: "r", Hint: "h"},
		},
		`{"content":[{"type":"image","mimeType":"image/png","data":"aGk="},{"type":"audio","mimeType":"audio/x","data":"aGk="},` +
			`{"type":"resource_link","mimeType":"text/x","uri":"u:1","name":"n","size":9},{"type":"resource","resource":{"uri":"u:2","mimeType":"text/x","text":"t"}},` +
			`{"type":"text","text":"[image image/png, 9 bytes: left out; read_output with output_ref r1 has it]"},{"type":"text","text":"[audio audio/x, 8 bytes: left out]"}]}`: {
			Blocks: []*sidecallv1.ContentBlock{
				{Type: "image", MimeType: "image/png", Data: []byte("hi")}, {Type: "audio", MimeType: "audio/x", Data: []byte("hi")},
				{Type: "resource_link", MimeType: "text/x", Uri: "u:1", Name: "n", Size: 9}, {Type: "resource", MimeType: "text/x", Uri: "u:2", Text: "t"},
				{Type: "image", MimeType: "image/png", Size: 9, OutputRef: "r1"}, {Type: "audio", MimeType: "audio/x", Size: 8},
			},
		},
	} {
		if got, err := json.Marshal(Of(res)); err != nil || string(got) != want {
			t.Errorf("got  %s\nwant %s, %v", got, want, err)
		}
	}
}
