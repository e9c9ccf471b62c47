package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// FuzzExecute: whatever a backend brings back, and whatever a caller asks for,
// there is one result that gRPC can carry, that is recorded, and that a
// duplicate gets byte for byte.
func FuzzExecute(f *testing.F) {
	for kind := range uint8(16) {
		f.Add(kind, `{"a":[1,2,"x"]}`, "said the upstream", "text/plain", "toolu_1", `{"order_id":"A-1"}`, int32(0))
		f.Add(kind, "\xff\xfe\x00\x1b[31m<\u202e", "bad \xf0\x28 bytes\n\tat main.go:1", "\xff/\x00", "\xff", "{\"order_id\":\"\xff\"}", int32(700))
	}
	effects := []tool.Effect{tool.ReadOnly, tool.Idempotent, tool.Keyed, tool.NonIdempotent}
	codes := []tool.Code{tool.CodeNotFound, tool.CodeUnrecoverable, tool.CodeDependencyUnavailable, tool.CodeInvalidOutput, "NO_SUCH_CODE"}
	f.Fuzz(func(t *testing.T, kind uint8, text, message, name, id, args string, limit int32) {
		if id == "" || len(id) > 256 || !utf8.ValidString(id) || !utf8.ValidString(args) || len(text)+len(message)+len(name)+len(args) > 16<<10 {
			return // refused before it gets here
		}
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			reply := tool.Reply{
				Text: []byte(text), JSON: json.Valid([]byte(text)), Status: int(kind), Header: map[string]string{name: message},
				Blocks: []tool.Block{{Type: name, MIMEType: message, URI: text, Name: name, Text: text, Data: []byte(message)}},
			}
			if kind&1 == 0 {
				reply.Blocks = nil
			}
			if json.Valid([]byte(message)) {
				reply.Structured = json.RawMessage(message)
			}
			if kind&2 == 0 {
				return reply, nil
			}
			return reply, &tool.Failure{
				Code: codes[int(kind>>2)%len(codes)], Evidence: tool.Evidence(kind % 3), Message: message, Field: name, Hint: text,
				Constraint: name, ErrorType: name, Err: errors.New(message),
			}
		}}
		s := calltest.New(t, calltest.NewRoute(t, "pay", effects[int(kind>>4)%len(effects)], b, func(r *catalog.Route) { r.Tool.Policy.Untrusted = kind&8 > 0 }))
		req := calltest.Request(id, "pay")
		req.ArgumentsJson, req.MaxOutputChars = args, limit
		first := s.Execute(t.Context(), call.NewRequest("", req))
		carried, err := proto.Marshal(first)
		if err != nil {
			t.Fatalf("gRPC cannot carry it: %v: %q", err, fmt.Sprint(first))
		}
		if b.Calls.Load() > 0 && !first.GetRecorded() {
			t.Errorf("it ran and is not recorded: %v", first)
		}
		again := s.Execute(t.Context(), call.NewRequest("", req))
		if !again.GetReplayed() {
			return // it may run again, or never ran
		}
		again.Replayed = first.GetReplayed()
		if same, err := proto.Marshal(again); err != nil || string(same) != string(carried) {
			t.Errorf("the duplicate gets %v, the first %v, %v", again, first, err)
		}
	})
}
