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

// shop stands for a sidecar with one tool, so that the example runs anywhere.
type shop struct {
	sidecallv1.UnimplementedToolServiceServer
}

func (shop) ExecuteTools(_ context.Context, r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	response := &sidecallv1.ExecuteToolsResponse{}
	for _, call := range r.GetCalls() {
		result := &sidecallv1.ExecuteToolResponse{ToolUseId: call.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: `{"status":"shipped"}`}
		if call.GetToolName() != "get_order" {
			result.Outcome, result.IsError = sidecallv1.Outcome_OUTCOME_ERROR, true
			result.Content = `{"code":"UNKNOWN_TOOL",...,"hint":"Did you mean \"get_order\"?"}`
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

// One assistant turn with two tool calls, one of them to a tool that the model
// made up. Every call has its result, in order, ready for the conversation.
func Example() {
	pipe := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, shop{})
	go func() {
		if err := server.Serve(pipe); err != nil {
			slog.Error("serve", "error", err)
		}
	}()
	defer server.Stop()

	// Against a sidecar of your own: sidecall.Dial("").
	client, err := sidecall.Dial("passthrough:///shop", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		slog.Error("dial", "error", err)
		return
	}
	defer func() { _ = client.Close() }() // the program ends here

	results, err := client.Calls(context.Background(),
		sidecall.Call{ID: "toolu_01", Tool: "get_order", Arguments: `{"order_id":"A-1"}`, Conversation: "c1", Turn: "1"},
		sidecall.Call{ID: "toolu_02", Tool: "fetch_order", Arguments: `{"order_id":"A-1"}`, Conversation: "c1", Turn: "1"},
	)
	if err != nil {
		slog.Error("no result: the same calls may be sent again with the same ids", "error", err)
		return
	}
	for _, r := range results {
		fmt.Println(r.GetToolUseId(), r.GetIsError(), r.GetContent())
	}
	// Output:
	// toolu_01 false {"status":"shipped"}
	// toolu_02 true {"code":"UNKNOWN_TOOL",...,"hint":"Did you mean \"get_order\"?"}
}
