package worker

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func encoded(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// Whatever registers, it is refused with a sentence, or its tools can be offered.
func FuzzDeclaration(f *testing.F) {
	for _, schema := range []string{"", "{}", `{"type":"object"}`, `{"type":["object","null"]}`, `{"Type":"object"}`, ` { "a":1}`, `{"type":null}`, `{"type":"object"} x`, `{"a":1e999}`} {
		r := registration("agent", "add")
		r.Tools[0].InputSchemaJson, r.Tools[0].OutputSchemaJson = schema, schema
		f.Add(encoded(f, r))
	}
	b := New(Config{Name: "local", Prefix: "my_"})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r sidecallv1.WorkerRegister
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		tools, err := b.cfg().declaration(&r)
		if err != nil {
			if s := status.Convert(err).Message(); s == "" || !utf8.ValidString(s) || len(s) > maxRefusal {
				t.Fatalf("it is refused with %q", s)
			}
			return
		}
		for _, d := range tools {
			if what := d.differs(d); what != "" {
				t.Errorf("%s: its %s is not its own", d.Name, what)
			}
			var input map[string]any
			if d.InputSchema == nil {
				continue
			}
			if err := json.Unmarshal(d.InputSchema, &input); err != nil {
				t.Fatalf("%s: its schema became %s: %v", d.Name, d.InputSchema, err)
			}
			if kinds, _ := input["type"].([]any); input["type"] != "object" && !slices.Contains(kinds, any("object")) {
				t.Errorf("%s: its schema does not describe an object: %s", d.Name, d.InputSchema)
			}
		}
	})
}

// Whatever a worker answers, as much of it is kept as there is room for, and only its
// word that nothing was run proves that.
func FuzzResult(f *testing.F) {
	for _, r := range []*sidecallv1.WorkerResult{
		{Content: "yes"}, {StructuredContentJson: `{"a":1}`}, {IsError: true, Code: "NOT_FOUND"}, {NotRun: true},
		{Content: "a long text that is cut", Blocks: []*sidecallv1.ContentBlock{{Type: "image", Data: []byte("png")}, nil}},
	} {
		f.Add(encoded(f, r), int64(10), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, most int64, repeatable bool) {
		var r sidecallv1.WorkerResult
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		call := backend.Invocation{MaxBytes: max(most, 1)}
		if repeatable {
			call.Effect = tool.Keyed
		}
		reply, failure := read(&r, &call)
		kept := len(reply.Text)
		for _, b := range reply.Blocks {
			kept += len(b.Data) + len(b.Text)
		}
		if int64(kept) > call.MaxBytes || len(reply.Blocks) > maxBlocks {
			t.Errorf("%d bytes and %d blocks are kept, of %d", kept, len(reply.Blocks), call.MaxBytes)
		}
		switch {
		case failure == nil && (r.GetIsError() || r.GetNotRun()), failure != nil && (failure.Evidence == tool.NotExecuted) && !r.GetNotRun():
			t.Errorf("%v is read as %v", &r, failure)
		case failure != nil && !repeatable && failure.Code != tool.CodeInvalidOutput && failure.Evidence == tool.Definite:
			t.Errorf("a failure that says nothing of what was done is %v", failure)
		}
	})
}
