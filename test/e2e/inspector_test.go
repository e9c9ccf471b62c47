//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// inspected is what the inspector's command line prints of one request.
type inspected struct {
	Result struct {
		Tools             []*mcp.Tool
		Content           []struct{ Text string }
		IsError           bool
		StructuredContent map[string]any
	}
}

// inspects makes one request with the inspector's command line, each with a process of its own.
func inspects(t *testing.T, era string, request []string, server []string) inspected {
	t.Helper()
	args := slices.Concat([]string{"--cli", "--format", "json", "--protocol-era", era}, request, server)
	cmd := suite(t, "mcp-inspector", args...)
	cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir()) // where it keeps a list of servers
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	var saw inspected
	if wrong := json.Unmarshal(out, &saw); wrong != nil {
		t.Fatalf("%v: %v, %v\n%s%s", args, err, wrong, out, log.String())
	}
	// It ends with 5 where a tool says that it failed.
	if exit, failed := errors.AsType[*exec.ExitError](err); (err != nil) != saw.Result.IsError || failed && exit.ExitCode() != 5 {
		t.Errorf("%v: %v\n%s", args, err, log.String())
	}
	return saw
}

// The inspector's command line lists and calls, in both eras, over HTTP, on stdio and through a wrapper.
// What it calls twice under one id has one effect, though another process answers.
func TestTheInspector(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		places := map[string]func(*testing.T, *till) []string{
			"over HTTP": func(t *testing.T, open *till) []string {
				address := harness.FreePort(t)
				harness.Start(t, open.config+"http: "+address+"\nstore: {memory: {}}\n")
				return []string{"--transport", "http", "--server-url", "http://" + address + "/mcp"}
			},
			"on stdio":          func(t *testing.T, open *till) []string { return append([]string{"--"}, open.onStdio(t)...) },
			"through a wrapper": func(t *testing.T, open *till) []string { return append([]string{"--"}, open.wrapped(t, false)...) },
		}
		for place, serve := range places {
			t.Run(era+", "+place, func(t *testing.T) {
				t.Parallel()
				open := openTill(t)
				server := serve(t, open)
				var tools []string
				for _, tool := range inspects(t, era, []string{"--method", "tools/list"}, server).Result.Tools {
					tools = append(tools, tool.Name)
				}
				if slices.Sort(tools); !slices.Equal(tools, []string{"pay", "read_output"}) {
					t.Errorf("the tools are %q", tools)
				}
				pays := func(arguments string) inspected {
					return inspects(t, era, []string{
						"--method", "tools/call", "--tool-name", "pay", "--tool-args-json", arguments,
						"--tool-metadata", "dev.sidecall/toolUseId=t-1", "dev.sidecall/conversationId=c-1",
					}, server)
				}
				// It makes null of what is no number.
				if wrong := pays(`{"cents":"many"}`).Result; !wrong.IsError || wrong.StructuredContent["code"] != "INVALID_ARGS" ||
					wrong.StructuredContent["field"] != "cents" || len(wrong.StructuredContent) != 5 {
					t.Errorf("wrong arguments: %+v", wrong)
				}
				for range 2 {
					if paid := pays(`{"cents":5}`).Result; paid.IsError || len(paid.Content) == 0 || !strings.Contains(paid.Content[0].Text, `{"payment":1}`) {
						t.Errorf("a payment: %+v", paid)
					}
				}
				if n := open.paid.Load(); n != 1 {
					t.Errorf("%d payments", n)
				}
			})
		}
	}
}
