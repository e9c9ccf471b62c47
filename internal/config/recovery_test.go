package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecoveryOfATool(t *testing.T) {
	c := shop(t, `
defaults: {recovery: {max_chars: 900}}
tools:
  plain: {backend: sh, exec: {argv: [x]}}
  off: {backend: sh, exec: {argv: [x]}, recovery: {context: off}}
  own: {backend: sh, exec: {argv: [x]}, recovery: {context: on, max_chars: 400, target: [order_id]}}
profiles: {quiet: {recovery: {context: off}}, loud: {}}
default_profile: loud
`)
	for name, want := range map[string]Recovery{
		"plain": {MaxChars: 900}, "off": {Off: true, MaxChars: 900}, "own": {MaxChars: 400, Target: []string{"order_id"}}, "there is none": {MaxChars: 900},
	} {
		if diff := cmp.Diff(want, c.Recovery(c.Tools[name].CallRules)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, want := range map[string]bool{"quiet": true, "loud": false} {
		if p, ok := c.Profile(name); !ok || p.Recovery.Off() != want {
			t.Errorf("%s: off is %v", name, !want)
		}
	}
	c = shop(t, `
defaults: {recovery: {context: off}}
tools: {plain: {backend: sh, exec: {argv: [x]}}, own: {backend: sh, exec: {argv: [x]}, recovery: {context: on}}}`)
	if !c.Recovery(CallRules{}).Off || c.Recovery(c.Tools["own"].CallRules).Off {
		t.Error("a tool cannot turn it on for itself")
	}
}

// Rules that can never act are told, with their place.
func TestRulesThatNameNobody(t *testing.T) {
	const rest = `defaults: {recovery: {rules: [{tools: [get_*, ship_*], suggest: ["Call {list_orders}, then {get_ordr} or {read_output}."]}]}}
tools:
  get_order:
    backend: sh
    exec: {argv: [x]}
    recovery: {rules: [{suggest: ["Ask.", "Call {gone}."]}]}
  quiet: {backend: sh, exec: {argv: [x]}, recovery: {context: off, target: [a]}}
`
	warned := func(backends string) string {
		return Problems(mustParse(t, "shop.yaml", []byte("backends: {sh: {exec: {}}"+backends+"}\n"+rest)).Warnings()).Error()
	}
	golden(t, "testdata/recovery_names.txt", warned("")+"\n\nwith a backend that discovers its tools:\n"+warned(`, mcp: {mcp: {command: [x]}}`)+"\n")
}
