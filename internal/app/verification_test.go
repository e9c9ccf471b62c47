package app

import (
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

const verifying = `
backends:
  sh: {exec: {}}
  files:
    mcp: {command: [server]}
    effects: {read: read_only}
    tools:
      append: {verify: {tool: read, done_when: "text.contains(args.line)"}}
      move: {verify: {tool: read, done_when: "text.contains("}}
tools:
  look: {backend: sh, effect: read_only, exec: {argv: [x]}}
  quick: {backend: sh, exec: {argv: [x]}, attempt_timeout: 1s, verify: {tool: look, not_run_when: "true"}}
  slow: {backend: sh, exec: {argv: [x]}, attempt_timeout: 50s, verify: {tool: look, not_run_when: "true", timeout: 2s}}
  told: {backend: sh, exec: {argv: [x]}, verify: {tool: look, not_run_when: "true", not_run_after: 90s}}
  plain: {backend: sh, exec: {argv: [x]}}
`

// Until the default of not_run_after is over, whatever sent the request has
// given it up, and half a minute has passed.
func TestVerificationsOfTheConfig(t *testing.T) {
	routes := generationOf(t, verifying).declared
	want := map[string]time.Duration{"quick": 30 * time.Second, "slow": 50 * time.Second, "told": 90 * time.Second}
	for _, route := range routes {
		v := route.Verification
		after, verifies := want[route.Tool.Name]
		delete(want, route.Tool.Name)
		switch {
		case verifies != (v != nil):
			t.Errorf("%s: verification %v", route.Tool.Name, v)
		case !verifies:
		case v.NotRunAfter != after || v.Tool != "look" || v.Timeout != map[string]time.Duration{"quick": 5 * time.Second, "slow": 2 * time.Second, "told": 5 * time.Second}[route.Tool.Name]:
			t.Errorf("%s: %+v", route.Tool.Name, v)
		case route.Tool.Policy.VerifyWith != "look":
			t.Errorf("%s: the model is told to verify with %q", route.Tool.Name, route.Tool.Policy.VerifyWith)
		}
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}

// A tool that is discovered is verified as its override says; one whose
// override is wrong is left out, and said to be.
func TestVerificationsOfDiscoveredTools(t *testing.T) {
	g := generationOf(t, verifying)
	routes, err := discoveredRoutes(g.hosts["files"], []tool.Discovered{{Name: "append"}, {Name: "read"}, {Name: "move"}}, g.config, g.discovery.pins)
	if len(routes) != 2 || routes[0].Verification == nil || routes[0].Verification.Tool != "read" || routes[1].Verification != nil {
		t.Fatalf("routes %v", routes)
	}
	if err == nil || !strings.Contains(err.Error(), "tool move: verify: done_when: ") {
		t.Errorf("of the wrong one: %v", err)
	}
}
