//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// failing is a tool that has its effect, and then says of itself that it failed.
type failing struct {
	// tool is the name without its prefix, said a part of what it says.
	tool, arguments, said string
	// effects is how often it has had its effect, of both kinds together.
	effects func() int64
}

// gateway is an MCP server that has an effect and then answers in the words of
// the SDKs for a tool that is not there, as a result or as an error of JSON-RPC.
func gateway(t *testing.T, effects *atomic.Int64) (url string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "gateway", Version: "1"}, nil)
	for name, answer := range map[string]func() (*mcp.CallToolResult, error){
		"lost_python": func() (*mcp.CallToolResult, error) { return failed("Unknown tool: lost_python"), nil },
		"lost_typescript": func() (*mcp.CallToolResult, error) {
			return failed("MCP error -32602: Tool lost_typescript not found"), nil
		},
		"lost_go": func() (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `unknown tool "lost_go"`}
		},
		"lost_method": func() (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
		},
		"picky": func() (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the second item is sold out"}
		},
	} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				effects.Add(1)
				return answer()
			})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(server.Close)
	return server.URL
}

func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// TestAToolFailsAfterItsEffect: an exit code, an isError or a JSON-RPC error does not say how
// far a tool had come, also where it says that there is no such tool. Unless its
// operator vouches for it the outcome is unknown, is never run again, and nobody is
// told that it would fail in the same way.
func TestAToolFailsAfterItsEffect(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		var fetched, relayed atomic.Int64
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fetched.Add(1)
			_, _ = io.WriteString(w, "longer than the server reads") // which leaves by then
		}))
		t.Cleanup(site.Close)
		ledger := filepath.Join(t.TempDir(), "ledger")
		s := harness.Start(t, store+failingTools(t, ledger, gateway(t, &relayed)))
		cases := []failing{
			{"script", `{}`, "the receipt printer is on fire", func() int64 { return lines(t, ledger) }},
			{fetch, args(t, "name", "page.gz", "data", site.URL, "outputType", "resource"), "exceeds max", fetched.Load},
		}
		for name, said := range map[string]string{
			"lost_python": "Unknown tool", "lost_typescript": "not found", "lost_go": "unknown tool", "lost_method": "not found", "picky": "sold out",
		} {
			cases = append(cases, failing{name, `{}`, said, relayed.Load})
		}
		for _, tt := range cases {
			harness.WaitFor(t, tt.tool, func() bool { return serves(t, s, "is_"+tt.tool) && serves(t, s, "clean_"+tt.tool) })
			t.Run(tt.tool, func(t *testing.T) { tt.fails(t, s) })
		}
	})
}

// failingTools is each of them twice: as it is, and vouched for.
func failingTools(t *testing.T, ledger, url string) string {
	t.Helper()
	server, err := mcpservers.Everything()
	server.Env = append(server.Env, "GZIP_MAX_FETCH_SIZE=5")
	script := []string{"sh", "-c", fmt.Sprintf("echo paid >>%q; echo the receipt printer is on fire >&2; exit 3", ledger)}
	backends := map[string]any{"sh": map[string]any{"exec": map[string]any{"env": []string{"PATH"}}}}
	tools := map[string]any{}
	for prefix, cleanly := range map[string]bool{"is_": false, "clean_": true} {
		vouched := map[string]any{"fails_cleanly": cleanly}
		tools[prefix+"script"] = map[string]any{"backend": "sh", "fails_cleanly": cleanly, "exec": map[string]any{"argv": script}}
		backends[prefix+"every"] = with(stdio(t)(server, err), "prefix", prefix, "tools", map[string]any{fetch: vouched})
		own := map[string]any{}
		for _, name := range []string{"lost_python", "lost_typescript", "lost_go", "lost_method", "picky"} {
			own[name] = vouched
		}
		backends[prefix+"gateway"] = map[string]any{
			"mcp": map[string]any{"url": url, "allow_private": true}, "prefix": prefix, "tools": own,
		}
	}
	return inYAML(t, map[string]any{"backends": backends, "tools": tools})
}

// fails makes the call as it is and vouched for, and sends each again.
func (tt failing) fails(t *testing.T, s *harness.Sidecar) {
	for prefix, state := range map[string]sidecallv1.ExecutionState{
		"is_":    sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN,
		"clean_": sidecallv1.ExecutionState_EXECUTION_STATE_DONE,
	} {
		before := tt.effects()
		call := &sidecallv1.ExecuteToolRequest{ToolUseId: prefix + tt.tool, ToolName: prefix + tt.tool, ArgumentsJson: tt.arguments}
		for _, when := range []string{"first", "sent again"} {
			res := s.Call(call)
			unknown := code(res) == "OUTCOME_UNKNOWN"
			if !res.GetIsError() || unknown != (prefix == "is_") || res.GetRecovery().GetAttempts() != 1 {
				t.Errorf("%s, %s: %v", call.GetToolName(), when, res)
			}
			if !strings.Contains(res.GetContent(), tt.said) {
				t.Errorf("%s, %s: what it said is lost: %s", call.GetToolName(), when, res.GetContent())
			}
			if unknown && strings.Contains(res.GetContent(), "same way") {
				t.Errorf("%s, %s: it claims to know what would come of it: %s", call.GetToolName(), when, res.GetContent())
			}
		}
		record, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: call.GetToolUseId()})
		if err != nil || record.GetState() != state {
			t.Errorf("%s is recorded as %v, %v", call.GetToolName(), record.GetState(), err)
		}
		if n := tt.effects() - before; n != 1 {
			t.Errorf("%s had %d effects", call.GetToolName(), n)
		}
	}
}

// task is an answer that names work which goes on.
type task struct{ *mcp.CallToolResult }

func (task) MarshalJSON() ([]byte, error) {
	return []byte(`{"resultType":"task","taskId":"t1","status":"working","ttlMs":60000}`), nil
}

// TestATaskIsNoResult: the work goes on after the answer, so the outcome is unknown.
func TestATaskIsNoResult(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		var begun atomic.Int64
		server := mcp.NewServer(&mcp.Implementation{Name: "later", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "later", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				begun.Add(1)
				return new(mcp.CallToolResult), nil
			})
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				res, err := next(ctx, method, req)
				if r, ok := res.(*mcp.CallToolResult); ok {
					return task{r}, err
				}
				return res, err
			}
		})
		site := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
		t.Cleanup(site.Close)
		s := harness.Start(t, store+inYAML(t, map[string]any{"backends": map[string]any{
			"b": map[string]any{"mcp": map[string]any{"url": site.URL, "allow_private": true}},
		}}))
		harness.WaitFor(t, "later", func() bool { return serves(t, s, "later") })
		for range 2 {
			res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_1", ToolName: "later"})
			if code(res) != "OUTCOME_UNKNOWN" || begun.Load() != 1 {
				t.Errorf("begun %d times: %v", begun.Load(), res)
			}
		}
		record, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: "toolu_1"})
		if err != nil || record.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
			t.Errorf("recorded as %v, %v", record.GetState(), err)
		}
	})
}

// lines counts those of a file.
func lines(t *testing.T, path string) int64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return int64(strings.Count(string(text), "\n"))
}
