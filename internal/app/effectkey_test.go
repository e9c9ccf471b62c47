package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// What makes calls the same has to be in every call: that is found with its place.
func TestEffectKeysOfTheConfig(t *testing.T) {
	schema := "    input_schema: {type: object, properties: {order: {type: string}, cents: {type: integer}, note: {type: string}}, required: [order, cents], additionalProperties: false}\n"
	for key, want := range map[string]string{
		"{args: [order, cents]}":      "",
		"{args: [order, cent, note]}": `8:32: tools.a.effect_key.args[1]: the input schema has no property "cent"; did you mean "cents"? | 8:38: tools.a.effect_key.args[2]: the input schema does not require "note"`,
		"{args: [zzz]}":               `8:25: tools.a.effect_key.args[0]: the input schema has no property "zzz"`,
	} {
		text := aBackend + "  a:\n    backend: sh\n    exec: {argv: [ls]}\n" + schema + "    effect_key: " + key + "\n"
		var found []string
		for _, p := range checked(t, text) {
			if p.Rule == config.RuleConflict {
				found = append(found, strings.TrimPrefix(p.Error(), "sidecall.yaml:"))
			}
		}
		parts := strings.Split(want, " | ")
		if want == "" {
			parts = nil
		}
		if len(found) != len(parts) {
			t.Fatalf("%s: found %q, want %q", key, found, parts)
		}
		for i, part := range parts {
			if !strings.HasPrefix(found[i], part) {
				t.Errorf("%s: found %q, want %q", key, found[i], part)
			}
		}
	}
}

// A tool that is discovered is the same by its override; one whose schema does not
// require what that names is left out, and said to be.
func TestEffectKeysOfDiscoveredTools(t *testing.T) {
	g := generationOf(t, `
retention: 6h
backends:
  files:
    mcp: {command: [server]}
    tools:
      append: {effect_key: {args: [line], scope: tenant}}
      move: {effect_key: {args: [to], window: 1h}}
`)
	schema := json.RawMessage(`{"type":"object","properties":{"line":{"type":"string"},"to":{"type":"string"}},"required":["line"]}`)
	routes, err := discoveredRoutes(g.hosts["files"], []tool.Discovered{{Name: "append", InputSchema: schema}, {Name: "move", InputSchema: schema}}, g.config, g.discovery.pins)
	if len(routes) != 1 {
		t.Fatalf("routes %v", routes)
	}
	if k := routes[0].Tool.Policy.EffectKey; strings.Join(k.Args, " ") != "line" || !k.WholeTenant || k.Window != 6*time.Hour {
		t.Errorf("append is the same by %+v", k)
	}
	if err == nil || !strings.Contains(err.Error(), `tool move: effect_key.args.0: the input schema does not require "to"`) {
		t.Errorf("got %v", err)
	}
}

// What a server says of itself must not switch off what its operator says: a tool whose
// calls have an effect, and that claims to have none, is left out.
func TestEffectKeysOfToolsThatClaimToHaveNoEffect(t *testing.T) {
	g := generationOf(t, `
backends:
  files:
    mcp: {command: [server], trust_annotations: true}
    tools:
      pay: {effect_key: {args: [to]}}
      move: {effect: idempotent, effect_key: {args: [to]}}
`)
	schema := json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)
	found := []tool.Discovered{
		{Name: "pay", InputSchema: schema, Claimed: true, Effect: tool.ReadOnly},
		{Name: "move", InputSchema: schema, Claimed: true, Effect: tool.ReadOnly},
	}
	routes, err := discoveredRoutes(g.hosts["files"], found, g.config, g.discovery.pins)
	if len(routes) != 1 || routes[0].Tool.Name != "move" {
		t.Errorf("routes %v", routes)
	}
	if err == nil || !strings.Contains(err.Error(), "tool pay: effect_key: it counts as read_only") {
		t.Errorf("got %v", err)
	}
}
