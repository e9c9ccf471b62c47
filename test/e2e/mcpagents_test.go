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
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// framework is an agent framework with an MCP client of its own.
type framework struct {
	// script is the agent, venv where the framework is installed.
	script, venv string
	// ids: its user can have it say in _meta which call of the model a request is.
	ids bool
}

var frameworks = map[string]framework{
	"OpenAI Agents": {"mcp_openai_agents.py", ".venv-agents", true},
	"PydanticAI":    {"mcp_pydantic_ai.py", ".venv-agents", true},
	"LangChain":     {"mcp_langchain.py", ".venv-sqlite", false},
}

// The MCP clients of agent frameworks, over HTTP, on stdio and through a wrapper. The model is told of
// wrong arguments in five fields, and what is sent twice for one call of the model has one effect: by
// the id where the framework says it, else by the effect key.
func TestTheMCPClientsOfAgentFrameworks(t *testing.T) {
	t.Parallel()
	for name, of := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(harness.Root(), "test", "e2e")
			python := filepath.Join(root, of.venv, "bin", "python")
			if _, err := os.Stat(python); err != nil {
				t.Skip("the framework is not installed: it needs Python 3.11 (test/e2e/install.sh)")
			}
			served, onStdio, wrapped, address := openTill(t), openTill(t), openTill(t), harness.FreePort(t)
			tills := []*till{served, onStdio, wrapped}
			if !of.ids {
				for _, open := range tills {
					open.config += "    effect_key: {args: [cents], scope: tenant}\n"
				}
			}
			harness.Start(t, served.config+"http: "+address+"\nstore: {memory: {}}\n")
			client := []string{python, "-B", filepath.Join(root, "python", of.script)}
			for _, server := range [][]string{{"http://" + address + "/mcp"}, onStdio.onStdio(t), wrapped.wrapped(t, !of.ids)} {
				inJSON, err := json.Marshal(server)
				if err != nil {
					t.Fatal(err)
				}
				client = append(client, string(inJSON))
			}
			lines := strings.Split(strings.TrimSpace(printed(t, client)), "\n")
			if len(lines) != len(tills) {
				t.Fatalf("of %d servers it printed %q", len(tills), lines)
			}
			for i, open := range tills {
				open.isPaidTwice(t, of, lines[i])
			}
		})
	}
}

// wrapped is the command line of a wrapper before a server that takes payments, with a state of its own.
func (open *till) wrapped(t *testing.T, effectKey bool) []string {
	t.Helper()
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	dir := harness.ShortDir(t)
	effects := "pay: non_idempotent\n"
	if effectKey {
		effects = "pay: {effect: non_idempotent, effect_key: {args: [cents], scope: tenant}}\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "effects.yaml"), []byte(effects), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		harness.Binary(t), "wrap", "--state", filepath.Join(dir, "state"), "--effects", filepath.Join(dir, "effects.yaml"), "--",
		python, "-B", filepath.Join(harness.Root(), "test", "e2e", "python", "mcppay.py"), open.url,
	}
}

// printed is what a command prints.
func printed(t *testing.T, command []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "OPENAI_AGENTS_DISABLE_TRACING=1", "LANGSMITH_TRACING=false")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log.String())
	}
	return string(out)
}

// isPaidTwice looks at what a client saw that has sent one payment twice, after it was told what is wrong.
func (open *till) isPaidTwice(t *testing.T, of framework, said string) {
	t.Helper()
	var saw struct{ Tools, Told []string }
	if err := json.Unmarshal([]byte(said), &saw); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if !slices.Equal(saw.Tools, []string{"pay", "read_output"}) || len(saw.Told) != 3 {
		t.Fatalf("it saw %+v", saw)
	}
	if wrong := fiveFields(saw.Told[0]); len(wrong) != 5 || wrong["code"] != "INVALID_ARGS" || wrong["field"] != "cents" || wrong["received"] != `"many"` {
		t.Errorf("of wrong arguments the model is told %s", saw.Told[0])
	}
	const paid = `{"payment":1}`
	if !strings.Contains(saw.Told[1], paid) {
		t.Errorf("of a payment the model is told %s", saw.Told[1])
	}
	again := []string{paid}
	if !of.ids {
		again = []string{"DUPLICATE_EFFECT", `payment`}
	}
	for _, what := range again {
		if !strings.Contains(saw.Told[2], what) {
			t.Errorf("of a payment that is sent again it is said %s, without %s", saw.Told[2], what)
		}
	}
	if n := open.paid.Load(); n != 1 {
		t.Errorf("%d payments", n)
	}
}

// fiveFields are those of an error that a model is told, some frameworks as the error of theirs.
func fiveFields(told string) (fields map[string]string) {
	if json.Unmarshal([]byte(told), &fields) == nil && len(fields) == 1 {
		return fiveFields(fields["error"])
	}
	return fields
}
