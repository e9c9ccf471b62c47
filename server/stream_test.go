package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
	"github.com/sidecall/sidecall/test/testkit/harness"
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

// newsroom is a backend whose server has resources. It counts who is subscribed to each.
type newsroom struct {
	*calltest.Backend

	mu         sync.Mutex
	subscribed map[string]int
	said       []backend.Note
}

func (n *newsroom) Forward(context.Context, string, json.RawMessage, backend.Memory) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

func (n *newsroom) Subscribe(_ context.Context, uri string) (end func(context.Context) error, err error) {
	n.count(uri, 1)
	return func(context.Context) error { n.count(uri, -1); return nil }, nil
}

func (n *newsroom) count(uri string, more int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subscribed[uri] += more
	return n.subscribed[uri]
}

func (n *newsroom) Listen(there chan<- struct{}) (next func() (backend.Note, bool), stop func()) {
	there <- struct{}{}
	said := n.said
	return func() (backend.Note, bool) {
		if len(said) == 0 {
			return backend.Note{}, false
		}
		one := said[0]
		said = said[1:]
		return one, true
	}, func() {}
}

// follows is a client who follows: its stream, and what it subscribes under.
type follows struct {
	sidecallv1.McpServiceClient

	stream grpc.ServerStreamingClient[sidecallv1.FollowResponse]
	id     string
}

func follow(t *testing.T, ctx context.Context, client testClient) follows { //nolint:revive // the order of helpers
	t.Helper()
	f := follows{McpServiceClient: sidecallv1.NewMcpServiceClient(client.conn)}
	var err error
	if f.stream, err = f.Follow(ctx, &sidecallv1.FollowRequest{}); err != nil {
		t.Fatal(err)
	}
	first, err := f.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	f.id = first.GetFollowId()
	return f
}

// ask makes a request about a subscription under an id.
func (f follows) ask(t *testing.T, method, uri, id string) codes.Code {
	t.Helper()
	params, _ := json.Marshal(map[string]string{"uri": uri})
	res, err := f.Forward(t.Context(), &sidecallv1.ForwardRequest{Method: method, ParamsJson: string(params), FollowId: id})
	if res.GetErrorJson() != "" {
		return codes.InvalidArgument
	}
	return status.Code(err)
}

// A subscription was anybody's: one who followed ended that of another, and had the bound of all.
func TestASubscriptionIsItsOwnersAlone(t *testing.T) {
	news := &newsroom{Backend: calltest.Answers("ok"), subscribed: map[string]int{}}
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, news))
	s.Profile(catalog.Profile{Name: "narrow", Tools: []string{"act"}})
	servers := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 5000, Servers: 2})
	in := servers.intake()
	here, there := dialTo(t, serve(t, servers.agents(in, []string{"narrow"}))), dialTo(t, serve(t, servers.Agents()))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	owner, neighbour, stranger := follow(t, ctx, here), follow(t, t.Context(), here), follow(t, t.Context(), there)

	for range 2 {
		if code := owner.ask(t, methodSubscribe, "test://a", owner.id); code != codes.OK {
			t.Fatal(code)
		}
	}
	for who, f := range map[string]follows{"one of the same listener": neighbour, "one of another": stranger} {
		if code := f.ask(t, methodUnsubscribe, "test://a", f.id); code != codes.OK || news.count("test://a", 0) != 2 {
			t.Errorf("%s has ended it (%s)", who, code)
		}
	}
	for _, id := range []string{owner.id, "", "made-up"} { // which are not of its listener
		if code := stranger.ask(t, methodUnsubscribe, "test://a", id); code != codes.FailedPrecondition || news.count("test://a", 0) != 2 {
			t.Errorf("under %q: %s", id, code)
		}
	}
	if code := owner.ask(t, methodUnsubscribe, "test://a", owner.id); code != codes.OK || news.count("test://a", 0) != 1 {
		t.Errorf("its own, once: %s, and %d are left", code, news.count("test://a", 0))
	}

	for len(in.subscribed) < cap(in.subscribed) {
		in.subscribed <- struct{}{}
	}
	if code := neighbour.ask(t, methodSubscribe, "test://b", neighbour.id); code != codes.ResourceExhausted || news.count("test://b", 0) != 0 {
		t.Errorf("one too many: %s, and the server has heard of it %d times", code, news.count("test://b", 0))
	}
	if code := stranger.ask(t, methodSubscribe, "test://b", stranger.id); code != codes.OK {
		t.Errorf("at another listener: %s", code)
	}
	if code := owner.ask(t, methodSubscribe, strings.Repeat("x", maxURI+1), owner.id); code != codes.InvalidArgument {
		t.Errorf("of a URI that no server is heard of: %s", code)
	}

	leave()
	harness.WaitFor(t, "its own to end with its stream", func() bool { return news.count("test://a", 0) == 0 })
	harness.WaitFor(t, "its place", func() bool { return len(in.subscribed) == cap(in.subscribed)-1 })
	if code := stranger.ask(t, methodSubscribe, "test://a", owner.id); code != codes.FailedPrecondition {
		t.Errorf("after its end: %s", code)
	}
}

// What a server says in bytes that are no text ends no stream.
func TestWhateverAServerSaysCanBeCarried(t *testing.T) {
	news := &newsroom{Backend: calltest.Answers("ok"), said: []backend.Note{{Method: "notifications/resources/updated", Params: "{\"uri\":\"\xe4\"}"}}}
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, news))
	f := follow(t, t.Context(), dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 10}))
	if said, err := f.stream.Recv(); err != nil || said.GetMethod() != "notifications/resources/updated" {
		t.Error(said, err)
	}
}

// What agents have operators have too, of the tenant that they name: a call that tells of itself was there
// in name alone.
func TestACallOfAnOperatorTellsOfItself(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, &calltest.Backend{Do: func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		answer, err := in.Caller.Asked(ctx, "elicitation/create", json.RawMessage(`{}`))
		if err != nil {
			t.Error(err)
		}
		return tool.Reply{Text: answer}, nil
	}}))
	client := dialTo(t, serve(t, NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 10}).Operators()))
	ctx := metadata.AppendToOutgoingContext(t.Context(), tenantHeader, "narrow")
	stream, err := client.ExecuteToolStream(ctx, &sidecallv1.ExecuteToolStreamRequest{Call: calltest.Request("toolu_1", "act"), Answers: true})
	if err != nil {
		t.Fatal(err)
	}
	asks, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sidecallv1.NewMcpServiceClient(client.conn).Answer(ctx, &sidecallv1.AnswerRequest{QuestionId: asks.GetMcp().GetQuestionId(), ResultJson: `{"yes":true}`}); err != nil {
		t.Error(err)
	}
	ends, err := stream.Recv()
	if err != nil || ends.GetResult().GetContent() != `{"yes":true}` {
		t.Error(ends, err)
	}
	key := &sidecallv1.GetExecutionRequest{ConversationId: calltest.Request("", "").GetConversationId(), TurnId: calltest.Request("", "").GetTurnId(), ToolUseId: "toolu_1"}
	if _, err := client.GetExecution(ctx, key); err != nil {
		t.Errorf("of the tenant: %v", err)
	}
	if _, err := client.GetExecution(t.Context(), key); status.Code(err) != codes.NotFound {
		t.Errorf("of another: %v", err)
	}
}
