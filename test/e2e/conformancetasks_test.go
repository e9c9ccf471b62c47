//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// taskFixtures is a server with the tools that the suite's scenarios for tasks call. It knows nothing
// of tasks itself: those are the sidecar's.
func taskFixtures(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "fixtures", Version: "1"}, nil)
	says := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	waits := func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	add := func(name string, readOnly bool, run mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: readOnly}}, run)
	}
	add("greet", true, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Name string }
		err := json.Unmarshal(req.Params.Arguments, &args)
		return says("Hello, " + args.Name + "!"), err
	})
	add("slow_compute", true, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Seconds float64 }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		return says("computed"), waits(ctx, time.Duration(args.Seconds*float64(time.Second)))
	})
	add("failing_job", false, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := says("it has failed")
		res.IsError = true
		return res, waits(ctx, time.Second)
	})
	add("protocol_error_job", false, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.Join(errors.New("it has crashed"), waits(ctx, time.Second))
	})
	asks := func(names ...string) mcp.ToolHandler {
		return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			questions := mcp.InputRequestMap{}
			for _, name := range names {
				if req.Params.InputResponses[name] == nil {
					questions[name] = &mcp.ElicitParams{Message: name + "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
				}
			}
			if len(questions) > 0 {
				return &mcp.CallToolResult{InputRequests: questions, RequestState: "asked"}, nil
			}
			said, err := json.Marshal(req.Params.InputResponses)
			if err != nil {
				return nil, err
			}
			return says(string(said)), waits(ctx, time.Second)
		}
	}
	add("confirm_delete", false, asks("confirm"))
	add("multi_input", false, asks("one", "two"))
	add("test_tool_with_task", false, asks("input"))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return web.URL
}

// taskScenarios are the suite's for tasks: how many checks of each pass, and which do not.
var taskScenarios = map[string]struct {
	passed int
	fails  []string
}{
	// An error of the tool's server is a failure of its call, of which a model is told: no error of
	// the front's protocol.
	"tasks-lifecycle":              {passed: 8, fails: []string{"sep-2663-tasks-get-status-failed"}},
	"tasks-capability-negotiation": {passed: 5},
	"tasks-wire-fields":            {passed: 4},
	"tasks-request-state-removal":  {passed: 3},
	// What a tool asks for it asks by a round, and by no task.
	"tasks-mrtr-input":            {passed: 1, fails: []string{"sep-2663-tasks-get-status-input-required", "tasks-mrtr-tasks-update-resumes", "tasks-mrtr-partial-fulfillment"}},
	"tasks-request-headers":       {passed: 5},
	"tasks-dispatch-and-envelope": {passed: 9},
	"tasks-mrtr-composition":      {passed: 2},
	// No tool of a sidecar has to be a task.
	"tasks-required-task-error": {passed: 1, fails: []string{"sep-2663-server-returns-missing-capability-when-required"}},
	// The suite itself skips the only check of tasks-status-notifications.
}

// The official suite's scenarios for tasks pass through a sidecar, but for what is named above.
func TestTasksConform(t *testing.T) {
	t.Parallel()
	address := harness.FreePort(t)
	s := harness.Start(t, fmt.Sprintf(`
http: %s
store: {memory: {}}
backends: {fixtures: {trust: trusted, mcp: {url: %q, allow_private: true, trust_annotations: true, protocol: "2026-07-28"}}}
profiles: {interactive: {loop_guard: {off: true}}}
`, address, taskFixtures(t)))
	harness.WaitFor(t, "the server's tools", func() bool { return len(s.Tools()) > 1 })
	for scenario, want := range taskScenarios {
		t.Run(scenario, func(t *testing.T) {
			out := t.TempDir()
			said, err := conformance(t, "server", "--url", "http://"+address+"/mcp", "--scenario", scenario, "--force",
				"--spec-version", "2026-07-28", "-o", out, "--timeout", fmt.Sprint(scenarioTime.Milliseconds())).CombinedOutput()
			if (err != nil) != (len(want.fails) > 0) {
				t.Errorf("the suite: %v", err)
			}
			failed := failedChecks(t, out, scenario)
			for _, id := range want.fails {
				if !strings.Contains(failed, id+": ") {
					t.Errorf("%s does not fail any more", id)
				}
			}
			if line := fmt.Sprintf("Passed: %d/%d, %d failed, 0 warnings", want.passed, want.passed+len(want.fails), len(want.fails)); !strings.Contains(string(said), line) {
				t.Errorf("not %q:\n%s%s", line, failed, said)
			}
		})
	}
}
