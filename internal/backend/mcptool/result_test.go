package mcptool

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

func readResult(t *testing.T, raw string, limit int64) (tool.Reply, *tool.Failure) {
	t.Helper()
	return read(answer{outcome: resulted, result: []byte(raw)}, backend.Invocation{MaxBytes: limit})
}

// What a server asks for, or says of how far it has come, is text, whatever it sends.
func TestWhatAServerSaysIsText(t *testing.T) {
	reply, failure := question(map[string]any{"requestState": json.RawMessage("\"\xe4\"")}, "It asks.")
	if failure != nil || !utf8.Valid(reply.InputRequired) {
		t.Errorf("asked %q, %v", reply.InputRequired, failure)
	}
	if note := progressNote(mcp.ProgressNotificationParams{Message: strings.Repeat("界", 400)}); !utf8.ValidString(note) || len(note) > 1<<10 {
		t.Errorf("%d bytes: %q", len(note), note[len(note)-4:])
	}
}

func TestResultsBecomeReplies(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG1"))
	for name, tt := range map[string]struct {
		raw   string
		limit int64
		want  tool.Reply
	}{
		"nothing":          {raw: `{"content":[]}`},
		"no content":       {raw: `{}`},
		"text":             {raw: `{"content":[{"type":"text","text":"hi"}]}`, want: tool.Reply{Text: []byte("hi"), Size: 2}},
		"two texts":        {raw: `{"content":[{"type":"text","text":"{}"},{"type":"text","text":"b"}]}`, want: tool.Reply{Text: []byte("{}\nb"), Size: 4}},
		"JSON in the text": {raw: `{"content":[{"type":"text","text":" {\"a\":1}\n"}]}`, want: tool.Reply{Text: []byte(" {\"a\":1}\n"), Size: 9, JSON: true}},
		"a number":         {raw: `{"content":[{"type":"text","text":"42"}]}`, want: tool.Reply{Text: []byte("42"), Size: 2}},
		"structured alone": {raw: `{"structuredContent":{"b":1e400,"a":9007199254740993}}`,
			want: tool.Reply{Text: []byte(`{"b":1e400,"a":9007199254740993}`), Structured: []byte(`{"b":1e400,"a":9007199254740993}`), Size: 32, JSON: true}},
		"structured and text": {raw: `{"content":[{"type":"text","text":"one"}],"structuredContent":[1]}`,
			want: tool.Reply{Text: []byte("one"), Structured: []byte(`[1]`), Size: 3}},
		"structured null":      {raw: `{"content":[{"type":"text","text":"one"}],"structuredContent":null}`, want: tool.Reply{Text: []byte("one"), Size: 3}},
		"structured too large": {raw: `{"structuredContent":[1,2,3,4,5,6]}`, limit: 5, want: tool.Reply{Cut: true}},
		"text too long": {raw: `{"content":[{"type":"text","text":"[1,2,3]"},{"type":"text","text":"abc"}]}`, limit: 5,
			want: tool.Reply{Text: []byte("[1,2,"), Size: 11, Cut: true}},
		"image": {raw: `{"content":[{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`,
			want: tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: []byte("\x89PNG1"), Size: 5}}}},
		"image too large": {raw: `{"content":[{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`, limit: 4,
			want: tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Size: 5}}}},
		"two images share the room": {raw: `{"content":[{"type":"image","data":"` + png + `"},{"type":"image","data":"` + png + `"}]}`, limit: 9,
			want: tool.Reply{Blocks: []tool.Block{{Type: "image", Data: []byte("\x89PNG1"), Size: 5}, {Type: "image", Size: 5}}}},
		"broken base64": {raw: `{"content":[{"type":"audio","mimeType":"audio/wav","data":"%%%%"}]}`,
			want: tool.Reply{Blocks: []tool.Block{{Type: "audio", MIMEType: "audio/wav", Size: 3}}}},
		"text resource": {raw: `{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"in"}}]}`,
			want: tool.Reply{Blocks: []tool.Block{{Type: "resource", URI: "file:///a", MIMEType: "text/plain", Text: "in", Size: 2}}}},
		"text resource too long": {raw: `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}]}`, limit: 3,
			want: tool.Reply{Blocks: []tool.Block{{Type: "resource", URI: "file:///a", Size: 6}}}},
		"binary resource": {raw: `{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"AQI="}}]}`,
			want: tool.Reply{Blocks: []tool.Block{{Type: "resource", URI: "file:///a", Data: []byte{1, 2}, Size: 2}}}},
		"link": {raw: `{"content":[{"type":"resource_link","uri":"file:///b","name":"b","size":7,"mimeType":"x/y"}]}`,
			want: tool.Reply{Blocks: []tool.Block{{Type: "resource_link", URI: "file:///b", Name: "b", MIMEType: "x/y", Size: 7}}}},
		"a type of the future": {raw: `{"content":[{"type":"poem","text":"roses"},{"type":"video","data":"AQI=","mimeType":"video/x"}]}`,
			want: tool.Reply{Text: []byte("roses"), Size: 5, Blocks: []tool.Block{{Type: "video", MIMEType: "video/x", Data: []byte{1, 2}, Size: 2}}}},
		"a member of the wrong type": {raw: `{"content":[{"type":"text","text":5},{"type":"text","text":"b"}],"isError":"no"}`,
			want: tool.Reply{Text: []byte("{\"type\":\"text\",\"text\":5}\nb"), Size: 26}},
		"a block without its array": {raw: `{"content":{"type":"text","text":"hi"}}`, want: tool.Reply{Text: []byte("hi"), Size: 2}},
		"a null block":              {raw: `{"content":[null,{"type":"text","text":"hi"}]}`, want: tool.Reply{Text: []byte("\nhi"), Size: 3}},
	} {
		got, f := readResult(t, tt.raw, tt.limit)
		if f != nil {
			t.Errorf("%s: %v", name, f)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBlocksAreCounted(t *testing.T) {
	blocks := strings.Repeat(`{"type":"image","data":""},`, 2000)
	reply, f := readResult(t, `{"content":[`+strings.TrimSuffix(blocks, ",")+`]}`, 0)
	if f != nil || len(reply.Blocks) != maxBlocks || !reply.Cut {
		t.Errorf("%d blocks, cut %v, %v", len(reply.Blocks), reply.Cut, f)
	}
}

func TestResultsThatAreFailures(t *testing.T) {
	isError := func(text string) string {
		return fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"isError":true}`, text)
	}
	for name, tt := range map[string]struct {
		raw       string
		code      tool.Code
		errorType string
	}{
		"isError":                {isError("printer on fire"), tool.CodeUnrecoverable, "tool_error"},
		"TypeScript, arguments":  {isError("MCP error -32602: Input validation error: Invalid arguments for tool x"), tool.CodeInvalidArgs, "tool_error"},
		"TypeScript, no tool":    {isError("MCP error -32602: Tool x not found"), tool.CodeUnknownTool, "tool_error"},
		"Python, arguments":      {isError("Input validation error: 'x' is a required property"), tool.CodeInvalidArgs, "tool_error"},
		"Python, no tool":        {isError("Unknown tool: x"), tool.CodeUnknownTool, "tool_error"},
		"says not found":         {isError("Tool shed not found"), tool.CodeUnrecoverable, "tool_error"},
		"asks for input":         {`{"resultType":"input_required","inputRequests":{}}`, tool.CodeUnrecoverable, "input_required"},
		"result is no object":    {`5`, tool.CodeInvalidOutput, "invalid_output"},
		"isError, no content":    {`{"isError":true}`, tool.CodeUnrecoverable, "tool_error"},
		"isError and structured": {`{"isError":true,"structuredContent":{"reason":"x"}}`, tool.CodeUnrecoverable, "tool_error"},
	} {
		// What the tool says of itself, also that it is not there or that it asks for
		// something, proves nothing to a call that must not be repeated, unless its
		// operator vouches for it.
		ownWord := tt.errorType != "invalid_output"
		for evidence, call := range map[tool.Evidence]backend.Invocation{
			tool.Definite: {Target: "x", FailsCleanly: true}, tool.Ambiguous: {Target: "x"},
		} {
			_, f := read(answer{outcome: resulted, result: []byte(tt.raw)}, call)
			if f == nil {
				t.Fatalf("%s: no failure", name)
			}
			if !ownWord {
				evidence = tool.Definite
			}
			wantFailure(t, f, tt.code, evidence, tt.errorType)
		}
		_, f := read(answer{outcome: resulted, result: []byte(tt.raw)}, backend.Invocation{Effect: tool.Idempotent})
		wantFailure(t, f, tt.code, tool.Definite, tt.errorType)
		if f.Code != tool.CodeInvalidOutput && !f.CallerFault {
			t.Errorf("%s counts against the server", name)
		}
	}
	if _, f := readResult(t, isError(strings.Repeat("x", 100_000)), 0); len(f.Message) > maxMessage {
		t.Errorf("a message has %d bytes", len(f.Message))
	}
}

// TestAResultOfAnotherTypeIsNoResult: the work may still go on, whatever the effect
// of the tool, and whatever its operator says of its failures.
func TestAResultOfAnotherTypeIsNoResult(t *testing.T) {
	large := `"x":"` + strings.Repeat("x", largeAnswer) + `"`
	for _, raw := range []string{
		`{"resultType":"task","taskId":"t1","status":"working"}`,
		`{"resultType":"task","content":[{"type":"text","text":"done"}]}`,
		`{"resultType":"task","isError":true}`,
		`{"resultType":"task",` + large + `}`,
		`{"resultType":"of the future"}`,
		`{"resultType":5}`,
		`{"resultType":5,` + large + `}`,
		`{"task":{"taskId":"t1","status":"working","ttl":null}}`,
		`{"content":[],"task":{"taskId":"t1"}}`,
		`{"content":[],"task":{"taskId":"t1"},` + large + `}`,
	} {
		for _, call := range []backend.Invocation{{}, {FailsCleanly: true}, {Effect: tool.Idempotent}} {
			_, f := read(answer{outcome: resulted, result: []byte(raw)}, call)
			wantFailure(t, f, tool.CodeInvalidOutput, tool.Ambiguous, "result_type")
		}
	}
	for _, raw := range []string{`{"resultType":"complete","content":[]}`, `{"resultType":""}`, `{"resultType":null,"task":null}`} {
		if _, f := readResult(t, raw, 0); f != nil {
			t.Errorf("%s: %v", raw, f)
		}
	}
}

func TestErrorsInPlaceOfAResult(t *testing.T) {
	for _, tt := range []struct {
		code     int64
		message  string
		effect   tool.Effect
		want     tool.Code
		evidence tool.Evidence
		caller   bool
	}{
		{-32602, "x must be even", tool.NonIdempotent, tool.CodeInvalidArgs, tool.Ambiguous, true},
		{-32602, "x must be even", tool.Idempotent, tool.CodeInvalidArgs, tool.Definite, true},
		{-32602, `unknown tool "y"`, tool.NonIdempotent, tool.CodeUnknownTool, tool.Ambiguous, true},
		{-32602, `unknown tool "x"`, tool.NonIdempotent, tool.CodeUnknownTool, tool.Ambiguous, true},
		{-32602, "Tool x not found", tool.NonIdempotent, tool.CodeUnknownTool, tool.Ambiguous, true},
		{-32602, "Tool x not found", tool.Idempotent, tool.CodeUnknownTool, tool.Definite, true},
		{-32601, "Method not found", tool.NonIdempotent, tool.CodeUnknownTool, tool.Ambiguous, true},
		{-32600, "Invalid request", tool.NonIdempotent, tool.CodeUnrecoverable, tool.Ambiguous, true},
		{-32700, "Parse error", tool.NonIdempotent, tool.CodeUnrecoverable, tool.Ambiguous, true},
		{-32603, "kaput", tool.NonIdempotent, tool.CodeUnrecoverable, tool.Ambiguous, false},
		{-32601, "Method not found", tool.Idempotent, tool.CodeUnknownTool, tool.Definite, true},
		{-32603, "kaput", tool.ReadOnly, tool.CodeUnrecoverable, tool.Definite, false},
		{-32603, "kaput", tool.Keyed, tool.CodeUnrecoverable, tool.Definite, false},
		{-32001, "request timed out", tool.NonIdempotent, tool.CodeUnrecoverable, tool.Ambiguous, false},
		{0, "handler failed", tool.NonIdempotent, tool.CodeUnrecoverable, tool.Ambiguous, false},
	} {
		_, f := read(answer{outcome: refused, rpc: &jsonrpc.Error{Code: tt.code, Message: tt.message}}, backend.Invocation{Target: "x", Effect: tt.effect})
		if f == nil {
			t.Fatal("no failure")
		}
		wantFailure(t, f, tt.want, tt.evidence, fmt.Sprint(tt.code))
		if f.Message != tt.message || f.CallerFault != tt.caller {
			t.Errorf("%d: message %q, caller's fault %v", tt.code, f.Message, f.CallerFault)
		}
	}
}

// FuzzResult: whatever a server answers, it becomes a reply within the limit,
// or a failure that says that the tool ran.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"hi"},{"type":"image","data":"AQI="}],"structuredContent":{"a":1},"isError":true}`), int64(3))
	f.Add([]byte(`{"content":[{"type":5}]}`), int64(0))
	f.Add([]byte(`{"content":{"resource":{"blob":"x"}}}`), int64(1))
	f.Add([]byte(`{"content":[{"type":"resource_link","uri":"file:///x","size":-1e300},{"type":"resource_link","uri":"u","size":1e300}]}`), int64(100))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"u","text":"é\ud800"}},{"type":"audio","data":"!!"}]}`), int64(2))
	f.Add([]byte(`{"content":[{"type":"text","text":"日本"},{"type":"text","text":"語"}],"isError":true}`), int64(4))
	f.Add([]byte(`{"structuredContent":[1,2,3],"content":[]}`), int64(5))
	f.Add([]byte(`[]`), int64(5))
	f.Fuzz(func(t *testing.T, raw []byte, limit int64) {
		reply, failure := read(answer{outcome: resulted, result: raw}, backend.Invocation{MaxBytes: limit, FailsCleanly: true})
		if failure != nil && failure.Evidence != tool.Definite && failure.ErrorType != "result_type" {
			t.Errorf("%s is %+v: the tool has answered", raw, failure)
		}
		if failure != nil && (!utf8.ValidString(failure.Message) || len(failure.Message) > maxMessage) {
			t.Errorf("message %q", failure.Message)
		}
		if reply.JSON && !json.Valid(reply.Text) || reply.Structured != nil && !json.Valid(reply.Structured) {
			t.Errorf("%q, structured %q: no JSON", reply.Text, reply.Structured)
		}
		if reply.Size < int64(len(reply.Text)) || len(reply.Blocks) > maxBlocks {
			t.Errorf("size %d of %d bytes, %d blocks", reply.Size, len(reply.Text), len(reply.Blocks))
		}
		carried := int64(0)
		for _, b := range reply.Blocks {
			carried += int64(len(b.Data) + len(b.Text))
			if b.Size < int64(len(b.Data)+len(b.Text)) {
				t.Errorf("a block of %d bytes says that it has %d", len(b.Data)+len(b.Text), b.Size)
			}
		}
		if limit > 0 && (int64(len(reply.Text)) > limit || carried > limit) {
			t.Errorf("%d bytes of text and %d of blocks, %d allowed", len(reply.Text), carried, limit)
		}
	})
}

// TestWhatMayStillRunIsNoSuccess asks a server of the SDK, over both transports.
func TestWhatMayStillRunIsNoSuccess(t *testing.T) {
	for name, config := range map[string]func(*testing.T) (Config, ledger){
		"stdio": func(t *testing.T) (Config, ledger) {
			l := newLedger(t)
			return stdio(t, "plain", l), l
		},
		"http": func(t *testing.T) (Config, ledger) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			return s.config(t), s.ledger
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l := config(t)
			r := run(t, cfg)
			r.up()
			reply, f := r.call("later", `{}`)
			wantFailure(t, f, tool.CodeInvalidOutput, tool.Ambiguous, errorTypeTaskLost)
			if len(reply.Text) > 0 || !strings.Contains(f.Constraint, "started as a task") {
				t.Errorf("reply %q, %s", reply.Text, f.Constraint)
			}
			_, f = r.call("pay and lose", `{}`)
			wantFailure(t, f, tool.CodeUnknownTool, tool.Ambiguous, "-32601")
			_, f = r.callAs(tool.Idempotent, "pay and lose", `{}`)
			wantFailure(t, f, tool.CodeUnknownTool, tool.Definite, "-32601")
			if begun, paid := l.count("begun"), l.count("paid"); begun != 1 || paid != 2 {
				t.Errorf("begun %d times, paid %d times", begun, paid)
			}
		})
	}
}
