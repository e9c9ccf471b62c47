//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// The MCP backend of docs/tools.md, with the server that it names, does what its comments
// say.
func TestTheMCPBackendOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml mcp\n")
	config, _, closed := strings.Cut(rest, "```")
	const asWritten = `[npx, -y, "@modelcontextprotocol/server-filesystem", ./data]`
	if !found || !closed || !strings.Contains(config, asWritten) {
		t.Fatal("docs/tools.md has no MCP backend, or another server")
	}
	dir := t.TempDir()
	server, err := mcpservers.Filesystem(dir)
	if err != nil {
		t.Fatal(err)
	}
	command, err := json.Marshal(server.Command) // without npx, which would ask the network
	if err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, strings.Replace(config, asWritten, string(command), 1))
	harness.WaitFor(t, "the tools of the server", func() bool { return len(s.Tools()) > 1 })
	list, err := s.Client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]sidecallv1.Effect{}
	for _, tool := range list.GetTools() {
		effects[tool.GetName()] = tool.GetEffect()
	}
	for name, want := range map[string]sidecallv1.Effect{
		"files_read_text_file": readOnly, "files_list_directory": readOnly, "files_write_file": idempotent, "files_edit_file": nonIdempotent,
		"files_move_file": 0, "read_text_file": 0, // excluded; without the prefix
	} {
		if effects[name] != want {
			t.Errorf("%s is %s, want %s", name, effects[name], want)
		}
	}
	path := filepath.Join(dir, "long.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("word ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "1", ToolName: "files_read_text_file", ArgumentsJson: args(t, "path", path)})
	if n := len([]rune(res.GetContent())); res.GetIsError() || n > 4000 || res.GetTruncation() == nil || !strings.Contains(res.GetContent(), "<untrusted_output") {
		t.Errorf("%d characters: %.300s", n, res.GetContent())
	}
}
