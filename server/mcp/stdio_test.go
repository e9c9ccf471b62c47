package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Of what comes on stdio the messages are read, and each line that is none is refused in one that says why.
func TestWhatIsNoMessageIsRefusedOnStdio(t *testing.T) {
	t.Parallel()
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, bad := range map[string]struct{ line, why string }{
		"a batch":         {"[" + good + "," + good + "]", "a batch is not taken"},
		"an id":           {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "no message of JSON-RPC"},
		"another version": {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "no message of JSON-RPC"},
		"a text":          {`"ping"`, "no message of JSON-RPC"},
		"no JSON":         {`{"jsonrpc":`, "no JSON"},
		"two on one line": {good + good, "no JSON"},
		"no text":         {"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", "not valid UTF-8"},
		"100 MB":          {`{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 100<<20) + `"}`, "more than"},
	} {
		var out bytes.Buffer
		conn, err := Stdio(io.NopCloser(strings.NewReader(good+"\n"+bad.line+"\n\n"+good+"\n")), &out).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if msg, err := conn.Read(t.Context()); err != nil {
				t.Fatalf("%s: %v, %v", name, msg, err)
			}
		}
		if msg, err := conn.Read(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end %v, %v", name, msg, err)
		}
		var refused struct {
			ID    any
			Error *jsonrpc.Error
		}
		if err := json.Unmarshal(out.Bytes(), &refused); err != nil || refused.Error == nil || !strings.Contains(refused.Error.Message, bad.why) || out.Len() > 1000 {
			t.Errorf("%s: %v, answered %.300s", name, err, out.String())
		}
	}
}

// What stands around a message on its line is no reason to end the session.
func TestSpaceAroundAMessageOnStdio(t *testing.T) {
	t.Parallel()
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, space := range []string{" ", "\t", "\f", "\v", "\u0085", "\u00a0"} {
		for _, line := range []string{space + good, good + space, good + space + "\r"} {
			conn, err := Stdio(io.NopCloser(strings.NewReader(line+"\n"+good+"\n")), io.Discard).Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if msg, err := conn.Read(t.Context()); err != nil {
					t.Fatalf("%q: %v, %v", line, msg, err)
				}
			}
		}
	}
}

// The last line counts without its end too, whatever it is.
func TestTheLastLineOnStdio(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]error{`{"jsonrpc":"2.0","id":1,"method":"ping"}`: nil, `nonsense`: io.EOF, ` `: io.EOF} {
		conn, err := Stdio(io.NopCloser(strings.NewReader(line)), io.Discard).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if msg, err := conn.Read(t.Context()); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v", line, msg, err)
		}
	}
}
