package sidecall_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// caller stands for a sidecar that has one call for the worker, so that the example
// runs anywhere.
type caller struct {
	sidecallv1.UnimplementedWorkerServiceServer
}

func (caller) Serve(stream grpc.BidiStreamingServer[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	fmt.Println(first.GetRegister().GetTools()[0].GetName(), first.GetRegister().GetTools()[0].GetEffect())
	for _, command := range []*sidecallv1.WorkerCommand{
		{Command: &sidecallv1.WorkerCommand_Registered{Registered: &sidecallv1.WorkerRegistered{}}},
		{Command: &sidecallv1.WorkerCommand_Invoke{Invoke: &sidecallv1.WorkerInvoke{
			InvocationId: "1", Tool: "refund", ArgumentsJson: `{"order_id":"A-1","cents":500}`, IdempotencyKey: "k-1", Attempt: 1,
		}}},
	} {
		if err := stream.Send(command); err != nil {
			return err
		}
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		if result := message.GetResult(); result != nil { // or that it leaves
			fmt.Println(result.GetContent())
			return nil
		}
	}
}

// A function of this program, served as a tool.
func ExampleClient_Work() {
	pipe := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	sidecallv1.RegisterWorkerServiceServer(server, caller{})
	go func() {
		if err := server.Serve(pipe); err != nil {
			slog.Error("serve", "error", err)
		}
	}()
	defer server.Stop()

	// At a sidecar of your own: sidecall.Dial("").
	client, err := sidecall.Dial("passthrough:///caller", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		slog.Error("dial", "error", err)
		return
	}
	defer func() { _ = client.Close() }() // the program ends here

	type refund struct {
		OrderID string `json:"order_id" jsonschema:"the order, as in A-1"`
		Cents   int    `json:"cents"`
	}
	ctx, stop := context.WithCancel(context.Background())
	worker := &sidecall.Worker{Name: "checkout"}
	err = sidecall.Add(worker, sidecall.Function{Name: "refund", Description: "Refund an order.", Effect: sidecall.Keyed},
		func(ctx context.Context, in refund) (string, error) {
			defer stop() // one is enough here
			call, _ := sidecall.InvocationOf(ctx)
			return fmt.Sprintf("%d cents of %s under the key %s", in.Cents, in.OrderID, call.Key), nil
		})
	if err != nil {
		slog.Error("add", "error", err)
		return
	}
	if err := client.Work(ctx, worker); err != nil {
		slog.Error("work", "error", err)
	}
	// Output:
	// refund EFFECT_KEYED
	// 500 cents of A-1 under the key k-1
}
