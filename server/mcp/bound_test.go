package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// slow is a client that has read nothing yet.
type slow struct {
	*httptest.ResponseRecorder

	until time.Time
	// while runs while something is written.
	while func()
}

func (s *slow) SetWriteDeadline(until time.Time) error { s.until = until; return nil }

func (s *slow) Write(data []byte) (int, error) {
	s.while()
	return s.ResponseRecorder.Write(data)
}

func (s *slow) FlushError() error { s.while(); return nil }

// What nobody reads was held without a bound, for as long as a client liked.
func TestWhatIsNotReadHasItsTimeAndItsRoom(t *testing.T) {
	room := limit.NewBytes(16 * smallWrite)
	client := &slow{ResponseRecorder: httptest.NewRecorder()}
	out := &patient{ResponseWriter: client, bytes: room}
	client.while = func() {
		if held := room.Held(); held != requestWeight*2*smallWrite {
			t.Errorf("%d bytes are held meanwhile", held)
		}
		if left := time.Until(client.until); left <= 0 || left > WriteTime {
			t.Errorf("it has %s to read", left)
		}
	}
	if _, err := out.Write(make([]byte, 2*smallWrite)); err != nil {
		t.Error(err)
	}
	client.while, client.until = func() {
		if time.Until(client.until) <= 0 {
			t.Error("a flush has no time")
		}
	}, time.Time{}
	if err := http.NewResponseController(out).Flush(); err != nil {
		t.Error(err)
	}
	client.while = func() {
		if _, err := out.Write(make([]byte, 3*smallWrite)); !errors.Is(err, errUnread) {
			t.Errorf("beyond the bound: %v", err)
		}
	}
	var other limit.Load
	other.Of(room)
	other.Take(1)
	client.while()
	if held := room.Held(); held != 1 {
		t.Errorf("%d bytes are held at the end", held)
	}
}

// The event with which a stream begins has no name.
func TestTheFirstEventOfAStreamHasNoName(t *testing.T) {
	client := httptest.NewRecorder()
	out := &patient{ResponseWriter: client}
	for _, event := range []string{"event: prime\nid: a_0\ndata: \n\n", "event: message\nid: a_1\ndata: event: prime\n\n"} {
		if n, err := out.Write([]byte(event)); n != len(event) || err != nil {
			t.Errorf("%d bytes are written, %v", n, err)
		}
	}
	if got := client.Body.String(); got != "id: a_0\ndata: \n\nevent: message\nid: a_1\ndata: event: prime\n\n" {
		t.Errorf("%q", got)
	}
}

func TestABugInARequestIsItsAlone(t *testing.T) {
	var log strings.Builder
	f := &face{servers: servers{options: &Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	_, err := f.receive(func(context.Context, string, sdk.Request) (sdk.Result, error) { panic("a bug") })(t.Context(), "ping", new(sdk.ServerRequest[*sdk.PingParams]))
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.CodeInternalError || strings.Contains(refused.Message, "a bug") || !strings.Contains(log.String(), "a bug") {
		t.Errorf("%v; the log: %s", err, log.String())
	}
}

// library is a server whose resources are large.
type library struct {
	sidecallv1.McpServiceClient
}

func (library) Forward(context.Context, *sidecallv1.ForwardRequest, ...grpc.CallOption) (*sidecallv1.ForwardResponse, error) {
	return &sidecallv1.ForwardResponse{ResultJson: `{"contents":[{"uri":"file:///1","text":"` + strings.Repeat("x", 2*smallWrite) + `"}]}`}, nil
}

// A hundred readers of 8 MB each held 1.2 GB.
func TestWhatAServerHandsOnTakesRoom(t *testing.T) {
	room := limit.NewBytes(requestWeight * 3 * smallWrite)
	f := servers{options: &Options{Servers: library{}, Bytes: room}}
	read := func() error {
		_, err := f.forward(t.Context(), "resources/read", &sdk.ServerRequest[*sdk.ReadResourceParams]{Session: new(sdk.ServerSession), Params: &sdk.ReadResourceParams{URI: "file:///1"}}, new(sdk.ReadResourceResult))
		return err
	}
	if err := read(); err != nil || room.Held() != 0 {
		t.Errorf("%v, %d bytes are held", err, room.Held())
	}
	var others limit.Load
	others.Of(room)
	others.Take(room.Max())
	if err := read(); err == nil || !strings.Contains(err.Error(), "limits.max_held_bytes") {
		t.Errorf("where there is no room: %v", err)
	}
}

// A session that hears nothing, because its client does not read, holds up no request in it.
func TestASessionThatHearsNothingHoldsUpNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hears := make(chan struct{})
		f := &Front{stateful: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hears })}
		began := time.Now()
		f.displace(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil), "s")
		if waited := time.Since(began); waited != WriteTime {
			t.Errorf("it waited for %v", waited)
		}
		close(hears)
	})
}
