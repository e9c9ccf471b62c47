package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func asked(t *testing.T) (*GRPC, *intake, testClient) {
	t.Helper()
	s := calltest.New(t)
	g := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 1000, Bytes: limit.NewBytes(64 << 20)})
	in := g.intake()
	return g, in, dialTo(t, serve(t, g.agents(in, nil)))
}

func watch(t *testing.T, client testClient, name string, options ...grpc.CallOption) (grpc.ServerStreamingClient[healthpb.HealthCheckResponse], error) {
	t.Helper()
	stream, err := healthpb.NewHealthClient(client.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: name}, options...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	return stream, err
}

// 600 streams with names of 4 MiB, of 2.7 MB in all, held 2.5 GB.
func TestNamesThatAreAskedForAreShort(t *testing.T) {
	_, in, client := asked(t)
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		if _, err := watch(t, client, strings.Repeat("n", 5<<10), options...); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a long name is watched: %v", err)
		}
		if _, err := watch(t, client, strings.Repeat("n", 100), options...); err != nil {
			t.Error(err)
		}
		_, err := healthpb.NewHealthClient(client.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("n", 5<<10)}, options...)
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a long name is looked up: %v", err)
		}
		stream, err := reflectionpb.NewServerReflectionClient(client.conn).ServerReflectionInfo(t.Context(), options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(symbol(strings.Repeat("n", 5<<10))); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a long name is described: %v", err)
		}
	}
	if held := in.bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

func symbol(name string) *reflectionpb.ServerReflectionRequest {
	return &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}
}

func TestReflectionAnswersManyQuestions(t *testing.T) {
	_, _, client := asked(t)
	stream, err := reflectionpb.NewServerReflectionClient(client.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(symbol("sidecall.v1.ToolService")); err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); err != nil || answer.GetFileDescriptorResponse() == nil {
			t.Fatalf("%v, %v", answer, err)
		}
	}
}

func TestStreamsThatWatchAreFew(t *testing.T) {
	g, _, client := asked(t)
	for range maxWatching {
		if _, err := watch(t, client, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := watch(t, client, ""); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "256 streams") {
		t.Errorf("one more: %v", err)
	}
	if _, err := watch(t, dialTo(t, serve(t, g.Agents("narrow"))), ""); err != nil {
		t.Errorf("at another listener: %v", err)
	}
	if _, err := healthpb.NewHealthClient(client.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("one that asks once: %v", err)
	}
}

// unreadStream takes no message: whoever sends waits until the stream ends.
type unreadStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // as gRPC's
}

func (s unreadStream) Context() context.Context { return s.ctx }

func (s unreadStream) SendMsg(any) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

// 300 streams of reflection that nobody read held 1 GB.
func TestAStreamWhoseAnswersAreNotReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake(limit.NewBytes(64<<20), 1, 4<<20)
		ctx, err := in.arriving.begin(t.Context(), &tap.Info{})
		if err != nil {
			t.Fatal(err)
		}
		arrivalOf(ctx).end() // its question has come
		lazy := question{unreadStream{ctx: ctx}, in.small()}
		if err := lazy.SendMsg(nil); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}
