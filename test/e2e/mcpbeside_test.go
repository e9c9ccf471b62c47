//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// besideCalls are calls of server-everything that say the same each time.
var besideCalls = []*mcp.CallToolParams{
	{Name: "echo", Arguments: map[string]any{"message": "hello"}},
	{Name: "get-sum", Arguments: map[string]any{"a": 2, "b": 3}},
	{Name: "get-tiny-image", Arguments: map[string]any{}},
	{Name: "get-resource-links", Arguments: map[string]any{"count": 3}},
	{Name: "get-structured-content", Arguments: map[string]any{"location": "Chicago"}},
	{Name: "get-annotated-message", Arguments: map[string]any{"messageType": "error", "includeImage": true}},
	{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.1, "steps": 2}},
}

// server-everything of the official packages, listed and called through a sidecar and beside it by one
// client, differs in nothing but what docs/mcp.md says.
func TestAServerThroughAndBesideASidecar(t *testing.T) {
	t.Parallel()
	server, err := mcpservers.Everything()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), server.Command[0], server.Command[1:]...)
	command.Env = server.Env
	beside := connects(t, &mcp.CommandTransport{Command: command})
	address := harness.FreePort(t)
	backend := with(trusting(stdio(t)(server, nil)), "trust", "trusted")
	s := harness.Start(t, inYAML(t, map[string]any{"http": address, "backends": map[string]any{"every": backend}}))
	harness.WaitFor(t, "the server's tools", func() bool { return len(s.Tools()) > 1 })
	through := connects(t, &mcp.StreamableClientTransport{Endpoint: "http://" + address + "/mcp"})
	wants(t, "what there is", listed(t, through), asListed(listed(t, beside)))
	for _, call := range besideCalls {
		a, err := through.CallTool(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		b, err := beside.CallTool(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, call.Name, a, asAnswered(t, b))
	}
}

func connects(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func wants(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s: through the sidecar\n%s\nbeside it\n%s", what, a, b)
	}
}

// everythingListed is what a server lists.
type everythingListed struct {
	Tools     map[string]*mcp.Tool
	Prompts   []*mcp.Prompt
	Resources []*mcp.Resource
	Templates []*mcp.ResourceTemplate
}

func listed(t *testing.T, session *mcp.ClientSession) *everythingListed {
	t.Helper()
	all := &everythingListed{Tools: map[string]*mcp.Tool{}}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name != "read_output" { // the sidecar's own
			all.Tools[tool.Name] = tool
		}
	}
	for prompt, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all.Prompts = append(all.Prompts, prompt)
	}
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all.Resources = append(all.Resources, resource)
	}
	for template, err := range session.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all.Templates = append(all.Templates, template)
	}
	return all
}

// asListed is what docs/mcp.md says that a sidecar makes of it.
func asListed(all *everythingListed) *everythingListed {
	delete(all.Tools, "get-roots-list") // which is there only for a client with roots
	for _, tool := range all.Tools {
		effect := "non_idempotent"
		switch {
		case tool.Annotations.ReadOnlyHint:
			effect = "read_only"
		case tool.Annotations.IdempotentHint:
			effect = "idempotent"
		}
		tool.Meta = mcp.Meta{"dev.sidecall/effect": effect}
		if effect != "read_only" {
			tool.Meta["dev.sidecall/idempotency"] = idempotencyTold
		}
		if tool.OutputSchema != nil {
			tool.Meta["dev.sidecall/outputSchema"], tool.OutputSchema = tool.OutputSchema, nil
		}
		tool.Annotations.Title = tool.Title
	}
	return all
}

// idempotencyTold is told with each tool that has an effect.
const idempotencyTold = "_meta dev.sidecall/toolUseId names the call: sent again with it, it runs once and is answered as the first time. Without it every request is a call of its own."

// asAnswered is what it says that a sidecar makes of a result: one text, at whose end a line stands for
// each block that is no text, and then these, without their annotations and descriptions.
func asAnswered(t *testing.T, res *mcp.CallToolResult) *mcp.CallToolResult {
	t.Helper()
	var texts, lines []string
	blocks := []mcp.Content{nil}
	for _, content := range res.Content {
		at := fmt.Sprintf("carried in blocks[%d]]", len(blocks)-1)
		switch content := content.(type) {
		case *mcp.TextContent:
			texts = append(texts, content.Text)
			continue
		case *mcp.ImageContent:
			content.Annotations = nil
			lines = append(lines, fmt.Sprintf("[image %s, %.1f KB: %s", content.MIMEType, float64(len(content.Data))/1000, at))
		case *mcp.ResourceLink:
			content.Description = ""
			lines = append(lines, fmt.Sprintf("[resource_link %q %s %s]", content.Name, content.URI, content.MIMEType))
		default:
			t.Fatalf("a block that the test does not know: %T", content)
		}
		blocks = append(blocks, content)
	}
	blocks[0] = &mcp.TextContent{Text: strings.Join(append(texts, lines...), "\n")}
	res.Content = blocks
	return res
}
