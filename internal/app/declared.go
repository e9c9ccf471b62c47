package app

import (
	"log/slog"
	"slices"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/schema"
)

// declaredRoute compiles a tool of the config file for the host that it lives
// on; nil when something is wrong with it, which is then among the problems. All
// of its parts are looked at, whatever is wrong with one. The draft is the text
// of its input schema.
func declaredRoute(h *host, name string, cfg *config.Config, found *problems) (*catalog.Route, schema.Draft) {
	declared := cfg.Tools[name]
	before := len(found.found)
	at := []string{"tools", name}
	if err := h.register(name, declared); err != nil {
		found.add(config.RuleRequest, err.Error(), "tools", name, h.config.Kind())
	}
	target := name
	if declared.MCP != nil {
		target = declared.MCP.Name
	}
	made, _ := cfg.Tool(name) // it is there: name is from the file
	route := newRoute(h, made, target)
	wrong := func(path []string, err error) { found.addEach(err, slices.Concat(at, path)...) }
	draft, err := compileSchema(route, nil)
	if err != nil {
		wrong([]string{"input_schema"}, err)
	}
	compileProgram(route, declared, nil, wrong)
	compileVerification(route, declared.CallRules, wrong)
	compileCompensation(route, declared.CallRules, wrong)
	compileApproval(route, declared.CallRules, wrong)
	compileRecovery(route, declared.CallRules, cfg, wrong)
	checkEffectKey(route, func(path []string, err error) {
		found.add(config.RuleConflict, err.Error(), slices.Concat(at, path)...)
	})
	if len(found.found) > before {
		return nil, draft
	}
	return route, draft
}

// hostOf is the host that a tool lives on. Of a tool whose backend cannot be
// built the other parts are looked at all the same: on a host that takes every
// tool and has no backend.
func hostOf(t config.Tool, hosts map[string]*host) *host {
	if h, ok := hosts[t.Backend]; ok {
		return h
	}
	nothing := config.Backend{Exec: &config.ExecBackend{}, MaxInFlight: 1, Breaker: config.Breaker{Failures: 1, Window: 1, OpenFor: 1}}
	return &host{
		built: built{register: nothingToRegister}, name: t.Backend, config: nothing,
		protection: newProtection(t.Backend, nothing, slog.New(slog.DiscardHandler)),
	}
}
