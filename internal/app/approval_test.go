package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// A condition that cannot be used is found with its place, at start and by check.
func TestApprovalsOfTheConfig(t *testing.T) {
	for said, want := range map[string]string{
		`approve_when: always`:                                    "",
		`approve_when: "args.cents > 5"`:                          "",
		`approve_when: "arg.cents > 5"`:                           "tools.a.approve_when: column 1: undeclared reference to 'arg'",
		`approve_when: "size(args)"`:                              "tools.a.approve_when: want a condition that is true or false",
		`approval_ttl: 5m`:                                        "tools.a.approval_ttl: nobody is asked before a call of this tool",
		`{require_confirmation_after: 2, approval_ttl: 5m}`:       "",
		`{approve_when: "status == 200", effect: idempotent}`:     "tools.a.approve_when: column 1: undeclared reference to 'status', the variables are args",
		`{approve_when: always, effect: read_only}`:               "tools.a.approve_when: a read_only tool has no effect",
		`{require_confirmation_after: 2, effect: read_only}`:      "tools.a.require_confirmation_after: a read_only tool has no effect",
		`{approve_when: "args.x\n  > ]", effect: non_idempotent}`: "tools.a.approve_when: line 2, column 5",
	} {
		said = strings.Trim(said, "{}")
		text := aBackend + "  a: {backend: sh, exec: {argv: [ls]}, " + said + "}\n"
		var found []string
		for _, p := range checked(t, text) {
			if strings.Contains(p.Error(), "approv") || strings.Contains(p.Error(), "confirmation") {
				found = append(found, p.Error())
			}
		}
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
			t.Errorf("%s: %q, want %q", said, found, want)
		}
	}
}

// Whoever decides has to see of what.
func TestApprovalsWithoutArguments(t *testing.T) {
	for kept, warned := range map[string]bool{"redacted": false, "none": true} {
		found := false
		for _, p := range checked(t, "keep_arguments: "+kept+"\n"+aBackend+"  a: {backend: sh, exec: {argv: [ls]}, approve_when: always}\n") {
			found = found || strings.Contains(p.Error(), "whoever decides does not see")
		}
		if found != warned {
			t.Errorf("keep_arguments: %s: warned %v", kept, found)
		}
	}
}

// What is said of a discovered tool holds for it, unless its server says that it has no effect:
// then it is left out, rather than called without a question.
func TestApprovalsOfDiscoveredTools(t *testing.T) {
	g := generationOf(t, `
backends:
  files:
    mcp: {command: [server], trust_annotations: true}
    tools:
      pay: {approve_when: "args.cents > 5", approval_ttl: 5m}
      move: {require_confirmation_after: 3}
      look: {approve_when: always}
`)
	schema := json.RawMessage(`{"type":"object","properties":{"cents":{"type":"integer"}}}`)
	found := []tool.Discovered{
		{Name: "pay", InputSchema: schema}, {Name: "move", InputSchema: schema},
		{Name: "look", InputSchema: schema, Claimed: true, Effect: tool.ReadOnly},
	}
	routes, err := discoveredRoutes(g.hosts["files"], found, g.config, g.discovery.pins)
	if len(routes) != 2 {
		t.Fatalf("routes %v", routes)
	}
	pay, move := routes[0], routes[1]
	if asks, _ := pay.Approval.Asks(map[string]any{"cents": json.Number("6")}); !asks || pay.Tool.Policy.ApprovalTTL != 5*time.Minute {
		t.Errorf("pay: %+v", pay.Tool.Policy)
	}
	if move.Approval != nil || move.Tool.Policy.ConfirmAfter != 3 || move.Tool.Policy.ApprovalTTL != time.Hour {
		t.Errorf("move: %+v", move.Tool.Policy)
	}
	for _, want := range []string{"tool look: approve_when: it counts as read_only"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
