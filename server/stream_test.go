package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Sixty-four notifications of 256 KiB waited for each caller that did not read them.
func TestWhatWaitsForACallerIsBounded(t *testing.T) {
	l := newListener(newAsked(), true, nil)
	for range 100 {
		l.Said("notifications/message", json.RawMessage(`"`+strings.Repeat("x", 200<<10)+`"`))
	}
	var last string
	held := 0
	for len(l.waiting) > 0 {
		event, _ := l.next()
		held += len(event.GetMcp().GetParamsJson())
		last = event.GetMcp().GetMethod()
	}
	if held > 2*maxEventBytes || last == "" {
		t.Errorf("%d bytes wait, the last is of %q", held, last)
	}
}

// What a backend says in bytes that are no text, or at length, costs no caller its result: gRPC would
// end a stream at the first event that it cannot carry.
func TestWhateverIsSaidCanBeCarried(t *testing.T) {
	l := newListener(newAsked(), true, nil)
	l.Progressed(backend.Sign{Note: strings.Repeat("\xe4", 5<<20)})
	l.Said("notifications/message", json.RawMessage("\"\xe4\""))
	for len(l.waiting) > 0 {
		event, _ := l.next()
		if encoded, err := proto.Marshal(event); err != nil || len(encoded) > maxEventBytes {
			t.Errorf("%d bytes, %v", len(encoded), err)
		}
	}
	n := newNews()
	n.add("notifications/resources/updated", json.RawMessage("{\"uri\":\"\xe4\"}"))
	if _, err := proto.Marshal(n.take()[0]); err != nil {
		t.Error(err)
	}
}

// A caller that does not read what it is told gives its stream up, as one that has left.
func TestACallerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calltest.New(t, calltest.NewRoute(t, "act", tool.NonIdempotent, &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			for range 1000 {
				in.Caller.Said("notifications/message", json.RawMessage(`{}`))
			}
			return tool.Reply{Text: []byte("done")}, nil
		}}))
		in := newIntake(limit.NewBytes(64<<20), 1, 4<<20)
		ctx, err := in.arriving.begin(t.Context(), &tap.Info{})
		if err != nil {
			t.Fatal(err)
		}
		arrivalOf(ctx).end() // its request has come
		service := &Service{Executor: s.Executor, bytes: in.bytes, asked: newAsked()}
		err = service.stream(ctx, &sidecallv1.ExecuteToolStreamRequest{Call: calltest.Request("toolu_1", "act")}, question{unreadStream{ctx: ctx}, in})
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the stream ends with %v", err)
		}
		if res := s.Call(calltest.Request("toolu_1", "act")); res.GetContent() != "done" {
			t.Errorf("sent again: %v", res)
		}
	})
}

// A stream gives no way around the bound of what waits to be read.
func TestAStreamIsRefusedWhileResponsesAreUnread(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	front := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: limit.NewBytes(64 << 20), Servers: 1})
	in := front.intake()
	client := dialTo(t, serve(t, front.agents(in, nil)))
	in.unread.held.Store(in.unread.most + 1)
	stream, err := client.ExecuteToolStream(t.Context(), &sidecallv1.ExecuteToolStreamRequest{Call: calltest.Request("toolu_1", "act")})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "OVERLOADED") {
		t.Errorf("%v", err)
	}
}

// Who follows at one listener takes no place of another's, and a question that one listener was
// asked is answered there alone.
func TestListenersFollowAndAnswerForThemselves(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	s.Profile(catalog.Profile{Name: "narrow", Tools: []string{"act"}})
	front := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 5000, Servers: 2})
	in := front.intake()
	narrow, wide := dialTo(t, serve(t, front.agents(in, []string{"narrow"}))), dialTo(t, serve(t, front.Agents()))
	for range cap(in.following) {
		in.following <- struct{}{}
	}
	follow := func(client testClient) error {
		stream, err := sidecallv1.NewMcpServiceClient(client.conn).Follow(t.Context(), &sidecallv1.FollowRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := follow(narrow); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: %v", err)
	}
	if err := follow(wide); err != nil {
		t.Errorf("at another listener: %v", err)
	}
}

// What a server says to everybody was kept whole, a thousand of it for each who follows.
func TestNewsAreFew(t *testing.T) {
	n := newNews()
	for i := range 3 * maxNews {
		n.add("notifications/resources/updated", json.RawMessage(`{"uri":"`+strings.Repeat("x", i)+`"}`))
	}
	if len(n.take()) != maxNews {
		t.Error("it is not bounded")
	}
}
