package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // what rawCodec stands before
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// notUTF8 stands in a message of these tests for the bytes FF FE, which no
// client can put into a string of proto3 by the usual way.
const notUTF8 = "\x01\x02"

// rawCodec sends what other clients may send: strings that are no UTF-8.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	encoded, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(bytes.ReplaceAll(encoded, []byte(notUTF8), []byte{0xff, 0xfe}))}, err
}

// sentRaw are the options of a request whose strings are no UTF-8.
func sentRaw() grpc.CallOption { return grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}) }

// wrongText are calls with a string that is no UTF-8, each with the field and the
// code of its result, and a part of what it says.
var wrongText = map[string]struct {
	change func(*sidecallv1.ExecuteToolRequest)
	field  string
	code   tool.Code
	says   string
}{
	"arguments": {func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"order_id":"A` + notUTF8 + `"}` },
		"order_id", tool.CodeInvalidArgs, "valid UTF-8: byte 0xff at line 1, column 15"},
	"a name in the arguments": {func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"` + notUTF8 + `":1}` },
		"", tool.CodeInvalidArgs, "valid UTF-8: byte 0xff at line 1, column 3"},
	"the tool's name": {func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "works" + notUTF8 },
		"tool_name", tool.CodeUnknownTool, "works"},
	"the conversation": {func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId = "c" + notUTF8 },
		"conversation_id", tool.CodeInvalidArgs, "not valid UTF-8: byte 2 is 0xff"},
	"the turn": {func(r *sidecallv1.ExecuteToolRequest) { r.TurnId = notUTF8 },
		"turn_id", tool.CodeInvalidArgs, "not valid UTF-8: byte 1 is 0xff"},
	"the prompt": {func(r *sidecallv1.ExecuteToolRequest) { r.PromptId = notUTF8 },
		"prompt_id", tool.CodeInvalidArgs, "not valid UTF-8"},
	"the profile": {func(r *sidecallv1.ExecuteToolRequest) { r.Profile = "p" + notUTF8 },
		"", tool.CodePermissionDenied, ""},
	"a label's value": {func(r *sidecallv1.ExecuteToolRequest) { r.Labels = map[string]string{"team": notUTF8} },
		"labels", tool.CodeInvalidArgs, "not valid UTF-8"},
	"a label's name": {func(r *sidecallv1.ExecuteToolRequest) { r.Labels = map[string]string{notUTF8: "shop"} },
		"labels", tool.CodeInvalidArgs, "not valid UTF-8"},
}

// Bytes that are no UTF-8 are told as such, under the id of the call, whoever made
// them up; to refuse the request in gRPC's own words would cost a whole batch.
func TestTextThatIsNoUTF8IsAResult(t *testing.T) {
	for name, c := range wrongText {
		t.Run(name, func(t *testing.T) {
			backend := calltest.Answers("ok")
			client := dial(t, calltest.New(t, calltest.NewRoute(t, "works", tool.NonIdempotent, backend)))
			wrong := calltest.Request("toolu_1", "works")
			c.change(wrong)
			single, err := client.ExecuteTool(t.Context(), wrong, sentRaw())
			if err != nil {
				t.Fatal(err)
			}
			calls := []*sidecallv1.ExecuteToolRequest{calltest.Request("before", "works"), wrong, calltest.Request("after", "works")}
			batch, err := client.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: calls}, sentRaw())
			if err != nil {
				t.Fatal(err)
			}
			for _, res := range []*sidecallv1.ExecuteToolResponse{single, batch.GetResults()[1]} {
				calltest.CheckInvariants(t, wrong, res)
				if calltest.Code(res) != c.code || res.GetError().GetField() != c.field || !strings.Contains(res.GetContent(), c.says) {
					t.Errorf("code %s, field %q: %s", calltest.Code(res), res.GetError().GetField(), res.GetContent())
				}
			}
			for _, i := range []int{0, 2} {
				calltest.CheckInvariants(t, calls[i], batch.GetResults()[i])
			}
			if n := backend.Calls.Load(); n != 2 {
				t.Errorf("%d executions, want those of its 2 neighbours", n)
			}
		})
	}
}

// An id that is no UTF-8 cannot be given back: to a single call that is the
// program's to mend, and in a batch the result stands at its place.
func TestAnIDThatIsNoUTF8CannotBePromised(t *testing.T) {
	backend := calltest.Answers("ok")
	client := dial(t, calltest.New(t, calltest.NewRoute(t, "works", tool.NonIdempotent, backend)))
	wrong := calltest.Request("toolu_"+notUTF8, "works")
	_, err := client.ExecuteTool(t.Context(), wrong, sentRaw())
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "tool_use_id: is not valid UTF-8: byte 7 is 0xff") {
		t.Errorf("single: %v", err)
	}
	batch, err := client.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
		Calls: []*sidecallv1.ExecuteToolRequest{calltest.Request("before", "works"), wrong, calltest.Request("after", "works")},
	}, sentRaw())
	if err != nil || len(batch.GetResults()) != 3 {
		t.Fatal(batch, err)
	}
	res := batch.GetResults()[1]
	if res.GetToolUseId() != "toolu_\uFFFD" || calltest.Code(res) != tool.CodeInvalidArgs || res.GetError().GetField() != "tool_use_id" {
		t.Error(res)
	}
	if n := backend.Calls.Load(); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
}

// What is asked by the program alone is refused with the field's name.
func TestAQuestionThatIsNoUTF8NamesTheField(t *testing.T) {
	client := dial(t, calltest.New(t))
	ask := map[string]func() error{
		"tool_use_id": func() error {
			_, err := client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", ToolUseId: notUTF8}, sentRaw())
			return err
		},
		"conversation_id": func() error {
			_, err := client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: notUTF8, ToolUseId: "1"}, sentRaw())
			return err
		},
		"output_ref": func() error {
			_, err := client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: notUTF8}, sentRaw())
			return err
		},
		"pattern": func() error {
			_, err := client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: "out_1", Pattern: notUTF8}, sentRaw())
			return err
		},
		"profile": func() error {
			_, err := client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{Profile: notUTF8}, sentRaw())
			return err
		},
	}
	for field, asked := range ask {
		if err := asked(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field+": is not valid UTF-8: byte 1 is 0xff") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What is no message at all stays what it is.
func TestWhatIsNoMessageIsRefused(t *testing.T) {
	for name, encoded := range map[string][]byte{
		"cut off":                   {0x0a, 0x05, 'a'},
		"a length beyond the end":   {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"no UTF-8 and cut off":      {0x0a, 0x01, 0xff, 0x12, 0x05},
		"no UTF-8 and another kind": {0x0a, 0x01, 0xff, 0x4a, 0x02, 0x0a, 0x09},
	} {
		req := &sidecallv1.ExecuteToolRequest{}
		if err := newTextCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(encoded)}, req); err == nil {
			t.Errorf("%s: read as %v", name, req)
		}
	}
}

// The lenient reading reads the same as the strict one does of what is valid.
func TestLenientIsStrictOfWhatIsValid(t *testing.T) {
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range 3 {
		req := calltest.Request(fmt.Sprint("toolu_", i), "works")
		req.Labels, req.TokensUsed, req.ValidateOnly = map[string]string{"a": "b", "c": ""}, 7, true
		batch.Calls = append(batch.Calls, req)
	}
	encoded, err := proto.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	got := &sidecallv1.ExecuteToolsRequest{}
	if err := readLenient(encoded, got.ProtoReflect()); err != nil || !proto.Equal(got, batch) {
		t.Errorf("%v, %v", got, err)
	}
}

// What the strict reading takes, the lenient one takes the same; and whatever it is
// given, it comes to an end.
func FuzzLenient(f *testing.F) {
	for _, c := range wrongText {
		req := calltest.Request("toolu_1", "works")
		c.change(req)
		encoded, err := proto.Marshal(&sidecallv1.ExecuteToolsRequest{Calls: []*sidecallv1.ExecuteToolRequest{req, calltest.Request("toolu_2", "works")}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		f.Add(bytes.ReplaceAll(encoded, []byte(notUTF8), []byte{0xff, 0xfe}))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		strict, lenient := &sidecallv1.ExecuteToolsRequest{}, &sidecallv1.ExecuteToolsRequest{}
		wrong := readLenient(encoded, lenient.ProtoReflect())
		if err := proto.Unmarshal(encoded, strict); err == nil && (wrong != nil || !proto.Equal(strict, lenient)) {
			t.Errorf("%v, %v, and not %v", lenient, wrong, strict)
		}
	})
}
