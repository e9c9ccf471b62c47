package sidecall_test

import (
	"context"
	"encoding/json"
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
	reading
}

func (s shop) RunMessage(ctx context.Context, r *sidecallv1.RunMessageRequest) (*sidecallv1.RunMessageResponse, error) {
	return runs(s.ExecuteTools).message(ctx, r)
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

// connected returns a client of the shop. Against a sidecar of your own that is
// sidecall.Dial(""), or sidecall.Launch{Config: "sidecall.yaml"}.Start(ctx).
func connected() (client *sidecall.Client, end func()) {
	pipe := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, shop{})
	go func() {
		if err := server.Serve(pipe); err != nil {
			slog.Error("serve", "error", err)
		}
	}()
	client, err := sidecall.Dial("passthrough:///shop", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close() // the program ends here
		server.Stop()
	}
}

// One assistant turn with two tool calls, one of them to a tool that the model
// made up. Every call has its result, in order, ready for the conversation.
func Example() {
	client, end := connected()
	defer end()
	results, err := client.ExecuteTools(context.Background(),
		sidecall.Call{ToolUseID: "toolu_01", ToolName: "get_order", Arguments: `{"order_id":"A-1"}`, ConversationID: "c1", TurnID: "1"},
		sidecall.Call{ToolUseID: "toolu_02", ToolName: "fetch_order", Arguments: `{"order_id":"A-1"}`, ConversationID: "c1", TurnID: "1"},
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

// The message of a provider in, what is to be appended out.
func ExampleClient_RunTools() {
	client, end := connected()
	defer end()
	// As the SDK of the provider gives it.
	message := `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[
		{"type":"tool_use","id":"toolu_01","name":"get_order","input":{"order_id":"A-1"}}]}`
	answered, err := client.RunTools(context.Background(), message, sidecall.Call{ConversationID: "c1", PromptID: "p1"})
	if err != nil {
		slog.Error("no result", "error", err)
		return
	}
	for _, m := range answered.Messages {
		fmt.Println(string(m))
	}
	fmt.Println("stop:", answered.Stop)
	// Output:
	// {"content":[{"content":"{\"status\":\"shipped\"}","tool_use_id":"toolu_01","type":"tool_result"}],"role":"user"}
	// stop: false
}

// A whole agent, but for the model.
func ExampleClient_RunLoop() {
	client, end := connected()
	defer end()
	model := []string{
		`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"get_order","arguments":"{\"order_id\":\"A-1\"}"}}]}}]}`,
		`{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"It has been shipped."}}]}`,
	}
	loop, err := client.RunLoop(context.Background(),
		func(_ context.Context, messages []json.RawMessage) (any, error) { return model[len(messages)/2], nil },
		[]any{map[string]string{"role": "user", "content": "Where is A-1?"}},
		sidecall.LoopOptions{Of: sidecall.Call{ConversationID: "c1"}})
	if err != nil {
		slog.Error("no end", "error", err)
		return
	}
	fmt.Println(loop.ExitReason, "after", loop.Turns, "turns and", len(loop.Messages), "messages")
	// Output:
	// end_turn after 2 turns and 4 messages
}
