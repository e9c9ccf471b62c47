//go:build e2e

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// The MCP client of an agent framework, over HTTP and on stdio: what it sends twice under one id has
// one effect.
func TestTheMCPClientOfAnAgentFramework(t *testing.T) {
	t.Parallel()
	root := filepath.Join(harness.Root(), "test", "e2e")
	python := filepath.Join(root, ".venv-agents", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("the agent frameworks are not installed: they need Python 3.11 (test/e2e/install.sh)")
	}
	client := []string{python, "-B", filepath.Join(root, "python", "mcpagents.py")}
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		open, address := openTill(t), harness.FreePort(t)
		harness.Start(t, open.config+"http: "+address+"\nstore: {memory: {}}\n")
		open.isPaidTwice(t, append(slices.Clone(client), "http://"+address+"/mcp"))
	})
	t.Run("on stdio", func(t *testing.T) {
		t.Parallel()
		open := openTill(t)
		open.isPaidTwice(t, slices.Concat(client, open.onStdio(t)))
	})
}

// isPaidTwice runs a client that pays twice under one id.
func (open *till) isPaidTwice(t *testing.T, client []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), client[0], client[1:]...)
	cmd.Env = append(os.Environ(), "OPENAI_AGENTS_DISABLE_TRACING=1")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log.String())
	}
	var saw struct{ Tools, Texts []string }
	if err := json.Unmarshal(out, &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if paid := `{"payment":1}`; !slices.Equal(saw.Tools, []string{"pay", "read_output"}) || !slices.Equal(saw.Texts, []string{paid, paid}) || open.paid.Load() != 1 {
		t.Errorf("it saw %+v, after %d payments", saw, open.paid.Load())
	}
}
