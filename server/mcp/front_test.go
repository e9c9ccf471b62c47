package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// sidecar has no tools, and servers behind it for as long as a test says so.
type sidecar struct {
	sidecallv1.ToolServiceClient
	sidecallv1.McpServiceClient

	mu       sync.Mutex
	servers  bool
	asked    map[string]int // by method
	meet     *sync.WaitGroup
	followed int
	lost     chan struct{} // ends the stream by which it is followed
	streams  int
	fails    error // of its calls
	away     error // of who follows it
	answered chan struct{}
	refusal  string // before answered is closed
}

func (s *sidecar) GetInstructions(context.Context, *sidecallv1.GetInstructionsRequest, ...grpc.CallOption) (*sidecallv1.GetInstructionsResponse, error) {
	return new(sidecallv1.GetInstructionsResponse), nil
}

func (s *sidecar) ListTools(context.Context, *sidecallv1.ListToolsRequest, ...grpc.CallOption) (*sidecallv1.ListToolsResponse, error) {
	return new(sidecallv1.ListToolsResponse), nil
}

func (s *sidecar) Forward(_ context.Context, req *sidecallv1.ForwardRequest, _ ...grpc.CallOption) (*sidecallv1.ForwardResponse, error) {
	if req.GetMethod() == "resources/subscribe" {
		if s.meet != nil {
			s.meet.Done()
			s.meet.Wait()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[req.GetMethod()+req.GetFollowId()]++
	if !s.servers {
		return nil, status.Error(codes.Unimplemented, "no servers")
	}
	return &sidecallv1.ForwardResponse{ResultJson: "{}"}, nil
}

func (s *sidecar) Follow(ctx context.Context, _ *sidecallv1.FollowRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[sidecallv1.FollowResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, s.away
	}
	s.followed++
	s.streams++
	return &silence{ctx: ctx, id: fmt.Sprint(s.streams), lost: s.lost, end: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.followed--
	}}, nil
}

// ExecuteToolStream is a call that asks its client for something and ends with its caller, unless calls fail.
func (s *sidecar) ExecuteToolStream(ctx context.Context, _ *sidecallv1.ExecuteToolStreamRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[sidecallv1.ExecuteToolStreamResponse], error) {
	return &unended{ctx: ctx, fails: s.fails, answered: s.answered}, nil
}

func (s *sidecar) Answer(_ context.Context, req *sidecallv1.AnswerRequest, _ ...grpc.CallOption) (*sidecallv1.AnswerResponse, error) {
	s.refusal = req.GetRefusal()
	close(s.answered)
	return new(sidecallv1.AnswerResponse), nil
}

// unended is the stream of a call.
type unended struct {
	grpc.ClientStream

	ctx   context.Context
	fails error
	asked bool
	// answered is closed when what it asks for is answered, which ends the call.
	answered chan struct{}
}

func (a *unended) Recv() (*sidecallv1.ExecuteToolStreamResponse, error) {
	if a.fails != nil {
		return nil, a.fails
	}
	if !a.asked {
		a.asked = true
		return &sidecallv1.ExecuteToolStreamResponse{Event: &sidecallv1.ExecuteToolStreamResponse_Mcp{
			Mcp: &sidecallv1.McpMessage{Method: "elicitation/create", ParamsJson: `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`, QuestionId: "q"},
		}}, nil
	}
	select {
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	case <-a.answered:
		return &sidecallv1.ExecuteToolStreamResponse{Event: &sidecallv1.ExecuteToolStreamResponse_Result{Result: &sidecallv1.ExecuteToolResponse{Content: "paid"}}}, nil
	}
}

// silence is a stream on which nothing is said but its id until it ends.
type silence struct {
	grpc.ClientStream

	ctx  context.Context
	id   string
	lost chan struct{}
	end  func()
}

func (s *silence) Recv() (*sidecallv1.FollowResponse, error) {
	if id := s.id; id != "" {
		s.id = ""
		return &sidecallv1.FollowResponse{Method: "notifications/tools/list_changed", FollowId: id}, nil
	}
	select {
	case <-s.ctx.Done():
	case <-s.lost:
	}
	s.end()
	return nil, io.EOF
}

func front(t *testing.T) (*Front, *sidecar) {
	t.Helper()
	s := &sidecar{servers: true, asked: map[string]int{}, lost: make(chan struct{}), answered: make(chan struct{})}
	f := New(Options{Tools: s, Servers: s})
	t.Cleanup(f.Close)
	return f, s
}

// joined is a session of a client.
func (f *face) joined(t *testing.T) *sdk.ServerSession {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	session, err := f.server.Connect(t.Context(), there, nil)
	if err == nil {
		_, err = sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// A face that has retired is kept, and followed, as long as somebody has a session with it.
func TestARetiredFaceEndsWithItsLastSession(t *testing.T) {
	t.Parallel()
	f, s := front(t)
	first, err := f.face(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	session := first.joined(t)
	kept := func() (known bool, n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_, known = f.every[first]
		return known, len(f.every)
	}
	for range 100 {
		now, err := f.face(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		f.retire(now)
		if known, n := kept(); !known || n > 3 {
			t.Fatalf("%d faces are kept, the one with a session among them: %t", n, known)
		}
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	_ = session.Wait()
	for range 2 {
		now, err := f.face(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		f.retire(now)
	}
	if known, n := kept(); known || n > 1 {
		t.Errorf("%d faces are kept, the one whose session has ended among them: %t", n, known)
	}
	f.Close()
	if s.followed != 0 {
		t.Errorf("%d are followed after the end", s.followed)
	}
}

// Two requests of a session for one resource at the same time are one subscription of it.
func TestTwoSubscriptionsAtOnce(t *testing.T) {
	t.Parallel()
	f, s := front(t)
	s.meet = new(sync.WaitGroup)
	s.meet.Add(2)
	face, err := f.face(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	session := face.joined(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := face.subscriptions.subscribe(t.Context(), &sdk.SubscribeRequest{Session: session, Params: &sdk.SubscribeParams{URI: "test://a"}}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if in, out := s.asked["resources/subscribe1"], s.asked["resources/unsubscribe1"]; in != 2 || out != 2 {
		t.Errorf("%d subscriptions, and %d were ended", in, out)
	}
}

// A stream that ends takes what sessions have subscribed to with it: the next one has it again.
func TestSubscriptionsOutliveTheStreamTheyAreOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s := front(t)
		face, err := f.face(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		session := face.joined(t)
		if err := face.subscriptions.subscribe(t.Context(), &sdk.SubscribeRequest{Session: session, Params: &sdk.SubscribeParams{URI: "test://a"}}); err != nil {
			t.Fatal(err)
		}
		s.lost <- struct{}{}
		time.Sleep(2 * followAgain)
		if err := face.subscriptions.unsubscribe(t.Context(), &sdk.UnsubscribeRequest{Session: session, Params: &sdk.UnsubscribeParams{URI: "test://a"}}); err != nil {
			t.Fatal(err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for what, want := range map[string]int{"resources/subscribe1": 1, "resources/subscribe2": 1, "resources/unsubscribe1": 0, "resources/unsubscribe2": 1} {
			if s.asked[what] != want {
				t.Errorf("%s: %d times, want %d", what, s.asked[what], want)
			}
		}
	})
}

// onStdio has a client make a call on standard input and output, until it reads a line. One that closes its end then
// asks for nothing more.
func (f *Front) onStdio(t *testing.T, ctx context.Context, until string, closes bool) (said string, ran <-chan error) { //nolint:revive // t first, as in tests
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- f.Run(ctx, Stdio(in, out), "")
		_ = out.Close()
	}()
	go func() {
		_, _ = io.WriteString(to, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`+
			"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"pay","arguments":{}}}`+"\n")
		if closes {
			_ = to.Close()
		}
	}()
	for lines := bufio.NewScanner(from); !strings.Contains(said, until) && lines.Scan(); {
		said = lines.Text()
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	return said, ended
}

// A sidecar that is away may come back, where it is not the front's own. Of one that only hangs up nobody is told.
func TestASidecarThatIsAway(t *testing.T) {
	t.Parallel()
	for said, isGone := range map[string]bool{`connection error: desc = "transport: Error while dialing: connect: connection refused"`: true, "the connection is draining": false} {
		for _, own := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				lost := 0
				s := &sidecar{servers: true, asked: map[string]int{}, away: status.Error(codes.Unavailable, said)}
				options := Options{Tools: s, Servers: s, Log: slog.New(slog.NewTextHandler(&log, nil))}
				if own {
					options.Lost = func() { lost++ }
				}
				f := New(options)
				if _, err := f.face(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * followAgain)
				s.mu.Lock()
				s.away = nil
				s.mu.Unlock()
				time.Sleep(2 * followAgain)
				f.Close()
				away, back := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "is back")
				told := map[bool]int{true: 1}[!own && isGone]
				if (lost > 0) != (own && isGone) || away != told || back != told {
					t.Errorf("own %v, %s: lost %d times\n%s", own, said, lost, log.String())
				}
			})
		}
	}
}

// A front that is to end waits for no call, and for nothing that its client is asked.
func TestAFrontOnStdioEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := front(t)
		ctx, end := context.WithCancel(t.Context())
		_, ran := f.onStdio(t, ctx, "elicitation/create", false)
		began := time.Now()
		end()
		if err := <-ran; err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		f.Close()
	})
}

// A client on stdio that neither reads nor closes its end does not hold up the end.
func TestAClientOnStdioThatDoesNotReadAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := front(t)
		ctx, end := context.WithCancel(t.Context())
		in, to := io.Pipe()
		from, out := io.Pipe()
		defer func() { _ = from.Close() }()
		ran := make(chan error, 1)
		go func() { ran <- f.Run(ctx, Stdio(in, out), "") }()
		_, _ = io.WriteString(to, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
		synctest.Wait() // its answer is being written
		began := time.Now()
		end()
		if err := <-ran; !errors.Is(err, errUnreadAtEnd) || time.Since(began) > lastRead {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		f.Close()
	})
}

// A client on stdio that closes its end is answered what it has asked before. What it is asked it does not answer any
// more.
func TestAClientOnStdioThatClosesItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := front(t)
		said, ran := f.onStdio(t, t.Context(), `"id":2`, true)
		if err := <-ran; err != nil || !strings.Contains(said, `"paid"`) {
			t.Errorf("%s, %v", said, err)
		}
		f.Close()
	})
}

// A client that refuses what a server asks of it is quoted as it is.
func TestAClientThatRefusesWhatItIsAsked(t *testing.T) {
	t.Parallel()
	f, s := front(t)
	here, there := sdk.NewInMemoryTransports()
	ran := make(chan error, 1)
	go func() { ran <- f.Run(t.Context(), there, "") }()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "x", Version: "1"}, &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		return nil, errors.New("no window")
	}}).Connect(t.Context(), here, &sdk.ClientSessionOptions{ProtocolVersion: sessions20251125})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "pay"}); err != nil || s.refusal != "no window" {
		t.Errorf("%v, the server is told %q", err, s.refusal)
	}
	if err := errors.Join(client.Close(), <-ran); err != nil {
		t.Error(err)
	}
}

// Of a call whose sidecar is lost it is said that it may have run, unless it was not sent.
func TestACallWhoseSidecarIsLost(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"error reading from server: EOF": "may have run",
		`connection error: desc = "transport: Error while dialing: dial unix /s: connect: no such file"`: "nothing was sent",
		"the sidecar is draining; nothing was started, send it again":                                    "the sidecar is draining",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, s := front(t)
			s.fails = status.Error(codes.Unavailable, said)
			ctx, end := context.WithCancel(t.Context())
			answered, ran := f.onStdio(t, ctx, `"id":2`, false)
			if told := strings.Contains(answered, "may have run"); !strings.Contains(answered, want) || told != (want == "may have run") {
				t.Errorf("%s: %s", said, answered)
			}
			end()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			f.Close()
		})
	}
}
