package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// waiting is a backend whose calls of large arguments say that they have begun,
// and end when they are let.
func waiting() (b *calltest.Backend, begun chan struct{}, let chan struct{}) {
	begun, let = make(chan struct{}, 100), make(chan struct{})
	return &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		if len(in.Args) > smallRequest {
			begun <- struct{}{}
			<-let
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}}, begun, let
}

func large(id string) *sidecallv1.ExecuteToolRequest {
	req := calltest.Request(id, "act")
	req.ArgumentsJson = `{"order_id":"` + strings.Repeat("x", 3<<20) + `"}`
	return req
}

// Four hundred arguments of 4 MiB took 3.8 GB. Here two fit; all others are told
// before they are read, those that are small are not kept waiting, and what was
// taken is given back.
func TestLargeRequestsAreRefusedBeforeTheyAreRead(t *testing.T) {
	b, begun, let := waiting()
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, b))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(2 * requestWeight * (3<<20 + 1000)) })
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 1000, Bytes: s.Bytes})
	results := make(chan error, 40)
	var calls sync.WaitGroup
	for n := range cap(results) {
		calls.Go(func() {
			_, err := client.ExecuteTool(t.Context(), large("big_"+string(rune('A'+n))))
			results <- err
		})
	}
	<-begun
	for range cap(results) - 2 {
		if err := <-results; status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "OVERLOADED") {
			t.Fatalf("one too many: %v", err)
		}
	}
	if held := s.Bytes.Held(); held > s.Bytes.Max() || held == 0 {
		t.Errorf("%d of %d bytes are held", held, s.Bytes.Max())
	}
	close(let)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	calls.Wait()
	if held := s.Bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
	if res, err := client.ExecuteTool(t.Context(), large("later")); err != nil || res.GetIsError() {
		t.Errorf("one alone: %v, %v", res.GetContent(), err)
	}
}

// Who sends little waits for nobody who sends much, and slowly.
func TestSmallRequestsWaitForNoReceiver(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(1 << 20) })
	in := newIntake(s.Bytes, 1, 4<<20)
	if cap(in.receivers) != 1 {
		t.Fatalf("%d receivers", cap(in.receivers))
	}
	in.receivers <- struct{}{} // and stalls
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := in.enter(ctx, 1<<20); status.Code(err) != codes.Canceled {
		t.Errorf("a large one is let in: %v", err)
	}
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: s.Bytes})
	stalled, end := context.WithCancel(t.Context())
	defer end()
	for range 3 {
		stream, err := client.conn.NewStream(stalled, &grpc.StreamDesc{ClientStreams: true}, sidecallv1.ToolService_ExecuteTool_FullMethodName)
		if err != nil || stream == nil {
			t.Fatal(err)
		}
	}
	if res, err := client.ExecuteTool(t.Context(), calltest.Request("toolu_1", "act")); err != nil || res.GetIsError() {
		t.Errorf("%v, %v", res.GetContent(), err)
	}
}

// gRPC does not promise that the length of a message can be read before it. When
// it cannot any more, this says so.
func TestTheLengthOfARequestIsKnownBeforeIt(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(1 << 30) })
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: s.Bytes})
	s.Bytes.Held()
	if res, err := client.ExecuteTool(t.Context(), large("toolu_1")); err != nil || res.GetIsError() {
		t.Fatalf("%v, %v", res.GetContent(), err)
	}
	full := limit.NewBytes(1)
	var all limit.Load
	all.Of(full)
	all.Take(1)
	client = dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: full})
	if _, err := client.ExecuteTool(t.Context(), large("toolu_2")); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large request was read without room for it: %v", err)
	}
}

// A compressed request is as large as it becomes.
func TestACompressedRequestIsBounded(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(64 << 20) })
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 1 << 20, MaxStreams: 100, Bytes: s.Bytes})
	small := calltest.Request("toolu_1", "act")
	small.ArgumentsJson = `{"order_id":"` + strings.Repeat("x", 900<<10) + `"}`
	if res, err := client.ExecuteTool(t.Context(), small, grpc.UseCompressor(gzip.Name)); err != nil || res.GetIsError() {
		t.Errorf("%v, %v", res.GetContent(), err)
	}
	if _, err := client.ExecuteTool(t.Context(), large("toolu_2"), grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one that is too large: %v", err)
	}
	if held := s.Bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// An output is taken whole out of the store for a page of it, so few are read at
// a time; who waits holds nothing, and leaves when its caller does.
func TestFewOutputsAreReadAtATime(t *testing.T) {
	s := calltest.New(t)
	front := &Service{Executor: s.Executor, readers: make(chan struct{}, 1)}
	read := func(ctx context.Context) codes.Code {
		_, err := front.ReadOutput(ctx, &sidecallv1.ReadOutputRequest{OutputRef: "out_1"})
		return status.Code(err)
	}
	front.readers <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := read(ctx); code != codes.Canceled {
		t.Errorf("one too many: %s", code)
	}
	waiting := make(chan codes.Code, 1)
	go func() { waiting <- read(t.Context()) }()
	<-front.readers
	if code := <-waiting; code != codes.NotFound || len(front.readers) != 0 {
		t.Errorf("after its wait: %s, %d places are taken", code, len(front.readers))
	}
}

// An empty call has two bytes on the wire and two hundred in memory: a batch of
// two million took 400 MB before it was refused for their number.
func TestABatchIsCountedBeforeItIsRead(t *testing.T) {
	s := calltest.New(t)
	in := newIntake(limit.NewBytes(64<<20), 1, 4<<20)
	in.maxBatch = func() int { return 128 }
	batch := func(calls int) mem.BufferSlice {
		half := calls / 2
		first, rest := bytes.Repeat([]byte{0x0a, 0}, half), bytes.Repeat([]byte{0x0a, 0}, calls-half)
		return mem.BufferSlice{mem.SliceBuffer(first), mem.SliceBuffer(rest)}
	}
	var req sidecallv1.ExecuteToolsRequest
	err := in.decode(t.Context(), batch(2<<20), &req)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "limits.max_batch") {
		t.Errorf("two million calls: %v", err)
	}
	if len(req.GetCalls()) != 0 {
		t.Errorf("%d of them were read", len(req.GetCalls()))
	}
	if err := in.decode(t.Context(), batch(129), &req); status.Code(err) != codes.InvalidArgument {
		t.Errorf("one too many: %v", err)
	}
	if err := in.decode(t.Context(), batch(128), &req); err != nil || len(req.GetCalls()) != 128 {
		t.Errorf("as many as may be: %d, %v", len(req.GetCalls()), err)
	}
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: limit.NewBytes(64 << 20)})
	if _, err := client.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: make([]*sidecallv1.ExecuteToolRequest, 1000)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("over the wire: %v", err)
	}
}

// stalledStream announces a message of so many bytes, and sends nothing; with none
// it does not even that.
type stalledStream struct {
	size int
	ctx  context.Context //nolint:containedctx // as gRPC's
}

func (s *stalledStream) ReadMessageHeader(header []byte) error {
	if s.size == 0 {
		<-s.ctx.Done()
		return s.ctx.Err()
	}
	binary.BigEndian.PutUint32(header[1:], uint32(s.size))
	return nil
}

func (s *stalledStream) Read(int) (mem.BufferSlice, error) {
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func (*stalledStream) RecvCompress() string { return "" }

// Who sends nothing, or announces large requests and does not send them, would keep all
// others from sending theirs.
func TestARequestThatDoesNotArriveGivesItsPlaceUp(t *testing.T) {
	for _, size := range []int{0, 1000, 3 << 20} {
		synctest.Test(t, func(t *testing.T) {
			bytes := limit.NewBytes(64 << 20)
			in := newIntake(bytes, 1, 4<<20)
			var refused sync.WaitGroup
			for range 3 * cap(in.receivers) {
				refused.Go(func() {
					ctx, err := in.arriving.begin(t.Context(), &tap.Info{})
					if err != nil {
						t.Error(err)
					}
					if _, _, err := in.receive(ctx, &stalledStream{size, ctx}); status.Code(err) != codes.DeadlineExceeded {
						t.Errorf("%v", err)
					}
				})
			}
			refused.Wait()
			if len(in.receivers) != 0 || bytes.Held() != 0 || held(in.arriving) != 0 {
				t.Errorf("%d places, %d and %d bytes are held by nobody", len(in.receivers), bytes.Held(), held(in.arriving))
			}
		})
	}
}

// Messages of models are larger than other requests: a few of them that stall would hold
// all the room, and every call would be refused.
func TestMessagesThatDoNotArriveLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes := limit.NewBytes(256 << 20)
		in := newIntake(bytes, 1, 4<<20)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		for range 100 {
			go func() { _, _, _ = in.of("RunMessage").receive(ctx, &stalledStream{16 << 20, ctx}) }()
			go func() { _, _, _ = in.of("ReadMessage").receive(ctx, &stalledStream{16 << 20, ctx}) }()
			go func() { _, _, _ = in.of("ExecuteTool").receive(ctx, &stalledStream{4 << 20, ctx}) }()
		}
		synctest.Wait()
		if bytes.Held() > bytes.Max()/2 || bytes.Held() < bytes.Max()/4 {
			t.Errorf("%d of %d MB are held", bytes.Held()>>20, bytes.Max()>>20)
		}
	})
}

// 2.4 MB of streams on which nothing was sent held 1 GB, and 34 MB with headers 4.7.
// Beyond the bound the oldest give way: whoever sends a request behind its stream never
// waits for those who do not.
func TestStreamsOnWhichNothingIsSentAreBounded(t *testing.T) {
	many := metadata.MD{}
	for n := range 400 {
		many.Append(fmt.Sprintf("x-%d", n), "")
	}
	for name, headers := range map[string]metadata.MD{"without headers": nil, "with headers": many} {
		synctest.Test(t, func(t *testing.T) {
			arriving := newIntake(limit.NewBytes(64<<20), 1, 4<<20).arriving
			each := streamWeight + headersWeight*sizeOf(headers)
			fit := int(arriving.most / each)
			var streams []context.Context
			for range 2 * fit {
				ctx, err := arriving.begin(t.Context(), &tap.Info{Header: headers})
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, ctx)
			}
			for i, ctx := range streams {
				gone := status.Code(context.Cause(ctx)) == codes.ResourceExhausted && ctx.Err() != nil
				if gone != (i < fit) {
					t.Fatalf("%s: stream %d of %d: %v", name, i, len(streams), context.Cause(ctx))
				}
			}
			if held(arriving) != int64(fit)*each {
				t.Errorf("%s: %d bytes are held, want %d", name, held(arriving), int64(fit)*each)
			}
			time.Sleep(receivePatience)
			synctest.Wait()
			if last := streams[len(streams)-1]; status.Code(context.Cause(last)) != codes.DeadlineExceeded || held(arriving) != 0 {
				t.Errorf("%s: %v, %d bytes are held for ever", name, context.Cause(last), held(arriving))
			}
		})
	}
}

func held(s *arrivals) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// What gRPC calls before it makes a stream is called for every service, and what it
// counts is given back when the request is there.
func TestEveryServiceCountsItsStreams(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	g := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: limit.NewBytes(64 << 20)})
	in := g.intake()
	client := dialTo(t, serve(t, g.agents(in, nil)))
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	for _, method := range []string{
		sidecallv1.ToolService_ExecuteTool_FullMethodName, sidecallv1.ConversationService_AppendMessages_FullMethodName,
		healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName, reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName,
	} {
		ctx, end := context.WithCancel(t.Context())
		stream, err := client.conn.NewStream(ctx, both, method)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, method+" is counted", func() bool { return held(in.arriving) >= streamWeight })
		var message any = new(healthpb.HealthCheckRequest) // of no field: any request
		if err := stream.SendMsg(message); err != nil {
			t.Fatal(err)
		}
		waitFor(t, method+" has come", func() bool { return held(in.arriving) == 0 })
		end()
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
		runtime.Gosched()
	}
}

// gRPC takes 16 MiB of metadata for each stream unless it is told otherwise.
func TestMetadataIsBounded(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers("ok")))
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: limit.NewBytes(1 << 20)})
	with := func(size int) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-much", strings.Repeat("x", size))
		_, err := client.ExecuteTool(ctx, calltest.Request("toolu_1", "act"))
		return err
	}
	if err := with(8 << 10); err != nil {
		t.Errorf("as much as a token or two: %v", err)
	}
	if err := with(1 << 20); err == nil {
		t.Error("a megabyte was taken")
	}
}

// Agents that do not read what they asked for held 700 MB with 200 replays. Beyond
// the bound nothing more is begun, whoever asks; what is read, or was to go over a
// connection that has broken, is given back.
func TestResponsesThatNobodyReadsAreBounded(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, lazy testClient, streams []grpc.ClientStream){
		"they are read": func(t *testing.T, _ testClient, streams []grpc.ClientStream) {
			for _, stream := range streams {
				if err := stream.RecvMsg(new(sidecallv1.ExecuteToolResponse)); err != nil && status.Code(err) != codes.ResourceExhausted {
					t.Error(err)
				}
			}
		},
		"the connection breaks": func(t *testing.T, lazy testClient, _ []grpc.ClientStream) {
			if err := lazy.conn.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("x", 1<<20)
			s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers(text), func(r *catalog.Route) {
				r.Tool.Policy.MaxOutputChars = 2 << 20
			}))
			s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(16 << 20) })
			g := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 1000, Bytes: s.Bytes})
			in := g.intake()
			addr := serve(t, g.agents(in, nil))
			lazy, other := dialTo(t, addr, grpc.WithInitialWindowSize(65535)), dialTo(t, addr) // the one takes no more before it reads
			again := func() (*sidecallv1.ExecuteToolResponse, error) {
				return other.ExecuteTool(t.Context(), calltest.Request("toolu_1", "act"))
			}
			if res, err := again(); err != nil || len(res.GetContent()) != len(text) {
				t.Fatal(err)
			}
			var streams []grpc.ClientStream
			for range 40 {
				stream, err := lazy.conn.NewStream(t.Context(), &grpc.StreamDesc{}, sidecallv1.ToolService_ExecuteTool_FullMethodName)
				if err == nil {
					err = errors.Join(stream.SendMsg(calltest.Request("toolu_1", "act")), stream.CloseSend())
				}
				if err == nil {
					_, err = stream.Header() // then its response is with gRPC, or refused
				}
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, stream)
			}
			held := in.unread.held.Load
			if most := s.Bytes.Max()/2 + 2<<20; held() > most || held() < s.Bytes.Max()/4 {
				t.Errorf("responses of %d bytes are held, want at most %d", held(), most)
			}
			if _, err := again(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "wait to be read") {
				t.Errorf("one more: %v", err)
			}
			end(t, lazy, streams)
			for held() != 0 {
				if t.Context().Err() != nil {
					t.Fatalf("%d bytes are held by nobody", held())
				}
				runtime.GC() // which is what gives back what gRPC left behind
			}
			if res, err := again(); err != nil || len(res.GetContent()) != len(text) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Listeners that differ in what they offer are tenants: one of which all places are taken,
// by requests that do not arrive, by responses that nobody reads and by calls that hold
// room, kept all others out, and operators. Each has its share.
func TestAListenerKeepsNobodyOutOfAnother(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, calltest.Answers(strings.Repeat("x", 100<<10))))
	s.Profile(catalog.Profile{Name: "narrow", Tools: []string{"act"}})
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(128 << 20) })
	front := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: s.Bytes, Servers: 2})
	in := front.intake()
	narrow := dialTo(t, serve(t, front.agents(in, []string{"narrow"})))
	stalled, end := context.WithCancel(t.Context())
	defer end()
	for range 2 * cap(in.receivers) {
		go func() { _, _, _ = in.receive(stalled, &stalledStream{100 << 10, stalled}) }()
	}
	waitFor(t, "its receivers to be taken", func() bool { return len(in.receivers) == cap(in.receivers) })
	var calls limit.Load
	calls.Of(in.bytes)
	// The receivers may still be taking theirs between the two.
	waitFor(t, "all of its share to be taken", func() bool { return calls.Take(in.bytes.Max() - in.bytes.Held()) })
	if res, err := narrow.ExecuteTool(t.Context(), calltest.Request("toolu_0", "act")); res.GetError().GetCode() != "OVERLOADED" {
		t.Errorf("a call there: %v %v", res, err)
	}
	in.unread.held.Store(in.unread.most + 1)
	for range cap(in.loads) {
		in.loads <- struct{}{}
	}
	if _, err := narrow.ExecuteTool(t.Context(), calltest.Request("toolu_0", "act")); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request there: %v", err)
	}
	for name, addr := range map[string]string{"another": serve(t, front.Agents()), "operators": serve(t, front.Operators())} {
		client := dialTo(t, addr)
		if res, err := client.ExecuteTool(t.Context(), large("toolu_"+name)); err != nil || res.GetIsError() {
			t.Errorf("%s: %v %v", name, res, err)
		}
		if _, err := sidecallv1.NewConversationServiceClient(client.conn).LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c"}); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stream whose request has room of its own gives way to nobody.
func TestARequestThatIsReceivedStays(t *testing.T) {
	t.Parallel()
	in := &arrivals{most: 2 * streamWeight}
	begin := func() context.Context {
		ctx, err := in.begin(t.Context(), &tap.Info{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(arrivalOf(ctx).end)
		return ctx
	}
	received, waits := begin(), begin()
	arrivalOf(received).admitted()
	for range 10 {
		begin()
	}
	if received.Err() != nil || waits.Err() == nil {
		t.Errorf("received: %v; on its way: %v", context.Cause(received), context.Cause(waits))
	}
}
