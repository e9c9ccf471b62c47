package worker

import (
	"context"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// front is the least that stands before a backend.
type front struct {
	sidecallv1.UnimplementedWorkerServiceServer

	to *Backend
}

func (f front) Serve(stream grpc.BidiStreamingServer[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	return f.to.Serve("", first.GetRegister(), stream)
}

// overGRPC runs a backend behind gRPC, in memory. hangUp breaks the connection.
func overGRPC(t testing.TB) (_ *Backend, workers sidecallv1.WorkerServiceClient, hangUp func()) {
	t.Helper()
	b := New(Config{Name: "local"})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		b.Run(ctx, func([]tool.Discovered, error) {})
	}()
	pipe := bufconn.Listen(64 << 10)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(1<<20), grpc.WaitForHandlers(true))
	sidecallv1.RegisterWorkerServiceServer(server, front{to: b})
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///b", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // it may be closed already
		cancel()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
		<-ran
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b, sidecallv1.NewWorkerServiceClient(conn), func() { _ = conn.Close() }
}

// enrolled is a stream whose worker is registered.
func enrolled(t testing.TB, workers sidecallv1.WorkerServiceClient) sidecallv1.WorkerService_ServeClient {
	t.Helper()
	stream, err := workers.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: registration("agent", "add")}}); err != nil {
		t.Fatal(err)
	}
	if command, err := stream.Recv(); err != nil || command.GetRegistered() == nil {
		t.Fatalf("%v, %v", command, err)
	}
	return stream
}

func TestOverGRPC(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(stream sidecallv1.WorkerService_ServeClient, id string, hangUp func()) error
		code   tool.Code // empty for a result
		proves tool.Evidence
	}{
		"it answers": {then: func(stream sidecallv1.WorkerService_ServeClient, id string, _ func()) error {
			return stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: &sidecallv1.WorkerResult{InvocationId: id, Content: "2"}}})
		}},
		"its connection breaks": {func(_ sidecallv1.WorkerService_ServeClient, _ string, hangUp func()) error {
			hangUp()
			return nil
		}, tool.CodeDependencyUnavailable, tool.Ambiguous},
		"it closes its side": {func(stream sidecallv1.WorkerService_ServeClient, _ string, _ func()) error {
			return stream.CloseSend()
		}, tool.CodeDependencyUnavailable, tool.Ambiguous},
		"its result is larger than is read": {func(stream sidecallv1.WorkerService_ServeClient, id string, _ func()) error {
			return stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: &sidecallv1.WorkerResult{InvocationId: id, Content: string(make([]byte, 2<<20))}}})
		}, tool.CodeDependencyUnavailable, tool.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			b, workers, hangUp := overGRPC(t)
			stream := enrolled(t, workers)
			done := make(chan answered, 1)
			go func() {
				reply, failure := b.Invoke(context.Background(), b.checked(to("add")))
				done <- answered{reply, failure}
			}()
			command, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.then(stream, command.GetInvoke().GetInvocationId(), hangUp); err != nil {
				t.Fatal(err)
			}
			if got := <-done; c.code == "" {
				got.text(t, "2")
			} else {
				got.want(t, c.code, c.proves)
			}
		})
	}
}

// Arguments of a size that agents may send can be more than a worker reads, 4 MiB where
// it says nothing else: written as canonical JSON a number takes up to five times its
// length. They cost their own call, and not the others of the worker, whose stream would
// end.
func TestArgumentsThatAreMoreThanAWorkerReads(t *testing.T) {
	b, workers, _ := overGRPC(t)
	stream := enrolled(t, workers)
	invoke := func(args string) <-chan answered {
		done, call := make(chan answered, 1), to("add")
		call.Args = []byte(args)
		go func() {
			reply, failure := b.Invoke(context.Background(), b.checked(call))
			done <- answered{reply, failure}
		}()
		return done
	}
	neighbour := invoke(`{}`)
	command, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	large := invoke(`{"text":"` + strings.Repeat("x", defaultMaxMessage) + `"}`)
	(<-large).want(t, tool.CodeInvalidArgs, tool.NotExecuted)
	fits := invoke(`{"text":"` + strings.Repeat("x", defaultMaxMessage-100) + `"}`)
	for _, done := range []<-chan answered{neighbour, fits} {
		if err := stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: &sidecallv1.WorkerResult{InvocationId: command.GetInvoke().GetInvocationId(), Content: "2"}}}); err != nil {
			t.Fatal(err)
		}
		(<-done).text(t, "2")
		if done != fits {
			if command, err = stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A bug that a worker sets off ends its stream, and nothing else.
func TestAPanicInAStream(t *testing.T) {
	b, workers, _ := overGRPC(t)
	stream := enrolled(t, workers)
	call := to("add")
	noted := 0
	call.Progress = func(backend.Sign) {
		if noted++; noted > 1 { // the first is said when it is handed over
			panic("a bug")
		}
	}
	done := make(chan answered, 1)
	go func() {
		reply, failure := b.Invoke(context.Background(), b.checked(call))
		done <- answered{reply, failure}
	}()
	command, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Progress{Progress: &sidecallv1.WorkerProgress{InvocationId: command.GetInvoke().GetInvocationId()}}}); err != nil {
		t.Fatal(err)
	}
	(<-done).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("its stream ended with %v", err)
	}
	enrolled(t, workers)
}

// BenchmarkACall is a call of a function that does nothing, over gRPC in memory.
func BenchmarkACall(b *testing.B) {
	at, workers, _ := overGRPC(b)
	stream := enrolled(b, workers)
	go func() { // ends with the stream
		for {
			command, err := stream.Recv()
			if err != nil {
				return
			}
			result := &sidecallv1.WorkerResult{InvocationId: command.GetInvoke().GetInvocationId(), Content: "2"}
			if stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: result}}) != nil {
				return
			}
		}
	}()
	call := to("add")
	call.Args = []byte(`{"a":1,"b":1}`)
	call = at.checked(call)
	for b.Loop() {
		if _, failure := at.Invoke(context.Background(), call); failure != nil {
			b.Fatal(failure)
		}
	}
}
