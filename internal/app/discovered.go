package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/definition"
	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/tool"
)

// discoveredRoutes are the routes of what a backend found. One tool that cannot
// be used is reported and left out; the others are served.
func discoveredRoutes(h *host, found []tool.Discovered, cfg *config.Config, pins *definition.Pins) ([]*catalog.Route, error) {
	var routes []*catalog.Route
	var errs []error
	there := make(map[ward]bool)
	patterns := &allowance{maxBackendPatterns}
	cleaner := definition.Cleaner{}
	if h.secrets != nil {
		cleaner.Secrets = h.secrets
	}
	pinned := comparePins(h, found, cfg, pins)
	for _, d := range found {
		as, ok := cfg.Discovered(h.name, d.Name, claimedEffect(d))
		if !ok {
			continue
		}
		route, err := h.routeOf(d, as, cfg, &cleaner, patterns)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		verdict := pinned[d.Name]
		route.Tool.DefinitionHash, route.Refused = verdict.hash, verdict.refused
		there[wardOf(route.Tool)] = true
		routes = append(routes, route)
	}
	h.protection.forget(func(of ward) bool {
		_, declared := cfg.Tools[of.name] // there for good
		return declared && cfg.Policy(of.name).MaxInFlight == of.places || there[of]
	})
	h.withdraw(found, routes)
	return routes, errors.Join(errs...)
}

// withdraw tells the calls that hold a pinned tool as it was listed before, where it
// is refused now. All lists in which it was the same tell the same calls, those of
// another generation too: the names are the server's own. Of a tool that is listed and
// not offered any more nothing is told; its calls are those of another config.
func (h *host) withdraw(listed []tool.Discovered, now []*catalog.Route) {
	if !h.config.Pin {
		return
	}
	before := h.pinned
	h.pinned = make(map[string]*catalog.Withdrawal, len(now))
	for _, route := range now {
		told := before[route.Target]
		delete(before, route.Target)
		if told == nil {
			told = new(catalog.Withdrawal)
		}
		if route.Refused != "" {
			told.Withdraw(route.Refused)
			continue
		}
		route.Withdrawal, h.pinned[route.Target] = told, told
	}
	for _, d := range listed {
		if told := before[d.Name]; told != nil {
			h.pinned[d.Name] = told
			delete(before, d.Name)
		}
	}
	for _, told := range before {
		told.Withdraw("this tool is pinned, and its server does not list it any more")
	}
}

// routeOf is discoveredRoute, and for a backend that was brought: see Brought.
func (h *host) routeOf(d tool.Discovered, as config.Discovered, cfg *config.Config, cleaner *definition.Cleaner, patterns *allowance) (*catalog.Route, error) {
	as.Policy.ForwardUndeclared = as.Policy.ForwardUndeclared || h.brought
	route, err := discoveredRoute(h, d, as, cfg, cleaner, patterns)
	if err == nil || !h.brought {
		return route, err
	}
	h.logger.Warn("the arguments of a tool are not checked: its schema cannot be used", "tool", d.Name, "error", err)
	return discoveredRoute(h, tool.Discovered{Name: d.Name, Effect: d.Effect, Claimed: d.Claimed}, as, cfg, cleaner, patterns)
}

// claimedEffect is what the backend says of the effect; nil when it says
// nothing.
func claimedEffect(d tool.Discovered) *tool.Effect {
	if !d.Claimed {
		return nil
	}
	return &d.Effect
}

// discoveredRoute compiles what a backend found as the config wants it.
func discoveredRoute(h *host, d tool.Discovered, as config.Discovered, cfg *config.Config, cleaner *definition.Cleaner, patterns *allowance) (*catalog.Route, error) {
	var errs []error
	d, err := cleaner.Clean(d)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", as.Name, err)
	}
	if err := grant(d.Wishes, &as, cfg); err != nil {
		return nil, fmt.Errorf("tool %s: %w", as.Name, err)
	}
	if as.Effect == tool.Keyed && h.config.MCP != nil && !d.Keyed {
		h.logger.Warn("a tool counts as non_idempotent: the config says keyed, and its server does not say that it honours the key (capability experimental."+identity.Extension+")", "tool", as.Name)
		as.Effect = tool.NonIdempotent
	}
	route := newRoute(h, discoveredTool(h, d, as), d.Name)
	route.Declaration = d.Declaration
	if _, err := compileSchema(route, patterns); err != nil {
		errs = append(errs, err)
	}
	wrong := func(path []string, err error) {
		errs = append(errs, fmt.Errorf("tool %s: %s: %w", as.Name, strings.Join(path, "."), err))
	}
	compileProgram(route, config.Tool{CallRules: as.Rules, OutputSchema: config.JSON(d.OutputSchema)}, patterns, wrong)
	compileVerification(route, as.Rules, wrong)
	compileCompensation(route, as.Rules, wrong)
	compileRecovery(route, as.Rules, cfg, wrong)
	checkEffectKey(route, wrong)
	compileApproval(route, as.Rules, wrong)
	checkHasEffect(route, wrong)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return route, nil
}

func discoveredTool(h *host, d tool.Discovered, as config.Discovered) tool.Tool {
	made := tool.Tool{
		Name: as.Name, Description: d.Description, InputSchema: d.InputSchema, OutputSchema: d.OutputSchema,
		Effect: as.Effect, Backend: h.name, Annotations: d.Annotations, Policy: as.Policy,
	}
	if as.Description != "" {
		made.Description = as.Description
	}
	if len(made.InputSchema) == 0 {
		made.InputSchema = []byte(`{"type":"object"}`)
	}
	return made
}
