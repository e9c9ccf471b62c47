package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

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

// What a client that does not read its answers asks for is bounded, and what it then reads says so. When it has
// closed its end it is answered first.
func TestAClientOnStdioThatDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, clientThatDoesNotRead)
}

func clientThatDoesNotRead(t *testing.T) {
	const asked = maxUnderWay + 10
	var in strings.Builder
	for i := range asked {
		_, _ = fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
	}
	var out bytes.Buffer
	lines, err := Stdio(io.NopCloser(strings.NewReader(in.String())), &out).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := newBounding(lines)
	var read []jsonrpc.Message
	for range maxUnderWay {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, msg)
	}
	ended := make(chan error)
	go func() {
		_, err := conn.Read(t.Context())
		ended <- err
	}()
	synctest.Wait()
	if refused := strings.Count(out.String(), "nothing was started"); refused != asked-maxUnderWay {
		t.Errorf("%d are refused", refused)
	}
	for _, msg := range read {
		if err := conn.Write(t.Context(), &jsonrpc.Response{ID: msg.(*jsonrpc.Request).ID, Result: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if len(conn.underWay) != 0 {
		t.Errorf("%d are under way at the end", len(conn.underWay))
	}
}

// Who only listens is not waited for.
func TestAClientOnStdioThatListensAndClosesItsEnd(t *testing.T) {
	t.Parallel()
	lines, err := Stdio(io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)), io.Discard).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := newBounding(lines)
	for _, want := range []error{nil, io.EOF} {
		if msg, err := conn.Read(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v, %v", msg, err)
		}
	}
}

// What a client is asked is forgotten when nobody waits for the answer any more.
func TestAQuestionOnStdioThatIsGivenUp(t *testing.T) {
	t.Parallel()
	lines, err := Stdio(io.NopCloser(strings.NewReader("")), io.Discard).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := jsonrpc.MakeID(7.)
	if err != nil {
		t.Fatal(err)
	}
	conn := newBounding(lines)
	for _, msg := range []*jsonrpc.Request{{ID: id, Method: "elicitation/create"}, {Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":7}`)}} {
		if err := conn.Write(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	if len(conn.asked) != 0 {
		t.Errorf("%v are asked", conn.asked)
	}
}
