package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/output"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/tool"
)

// declaredRoute compiles a tool of the config file; nil when something is
// wrong with it, which is then among the problems.
func (b *builder) declaredRoute(name string) *server.Route {
	declared := b.config.Tools[name]
	h, ok := b.hosts[declared.Backend]
	if !ok {
		return nil // the backend itself is among the problems
	}
	made, _ := b.config.Tool(name)
	if err := h.register(name, declared); err != nil {
		b.wrong(err, "tools", name, h.config.Kind())
		return nil
	}
	target := name
	if declared.MCP != nil {
		target = declared.MCP.Name
	}
	route := b.newRoute(h, made, target)
	failed := len(b.problems)
	wrong := func(path []string, err error) {
		for _, found := range locate(err, append([]string{"tools", name}, path...)) {
			b.wrong(found.err, found.path...)
		}
	}
	b.compileSchema(route, func(err error) { wrong([]string{"input_schema"}, err) })
	b.compileProgram(route, declared, wrong)
	compileVerification(route, declared.CallRules, wrong)
	if len(b.problems) > failed {
		return nil
	}
	return route
}

// newRoute gives a tool the guards of its backend.
func (b *builder) newRoute(h *host, t tool.Tool, target string) *server.Route {
	route := &server.Route{
		Tool: t, Backend: h.backend, Target: target,
		Heartbeat: h.config.Discovers(),
		Breaker:   h.breaker, Rate: h.rate, Retries: h.retries, Slots: h.slots, Secrets: h.secrets,
	}
	own := b.guardsOf(h, t)
	route.Room, route.ToolSlots = own.room, own.slots
	if h.breaker == nil {
		route.Breaker = own.breaker
	}
	return route
}

// toolGuards are the guards of one tool; nil where it has none of its own.
type toolGuards struct {
	breaker *breaker.Breaker
	room    *limit.Adaptive
	slots   *limit.Bulkhead
}

// guardsOf keeps the guards of a tool across rediscoveries: a changed tool list
// does not forget that a tool is failing, nor what it has in flight.
func (b *builder) guardsOf(h *host, t tool.Tool) *toolGuards {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept := b.guards[h.name][t.Name]; kept != nil {
		return kept
	}
	made := &toolGuards{}
	if h.breaker == nil {
		made.breaker = b.newBreaker(breakerName(h, t.Name), h.config.Breaker)
	}
	if h.config.Adaptive {
		made.room = limit.NewAdaptive()
	}
	if t.Policy.MaxInFlight > 0 {
		made.slots = limit.NewBulkhead(t.Policy.MaxInFlight)
	}
	if b.guards[h.name] == nil {
		b.guards[h.name] = make(map[string]*toolGuards)
	}
	b.guards[h.name][t.Name] = made
	return made
}

func breakerName(h *host, toolName string) string { return h.name + "/" + toolName }

// forgetGuards drops the guards of tools that a backend has no more: one that
// renames its tools for ever must not fill memory. What has calls in flight
// stays until the next change.
func (b *builder) forgetGuards(h *host, routes []*server.Route) {
	there := make(map[string]bool, len(routes)+len(b.config.Tools))
	for name := range b.config.Tools { // declared: there for good
		there[name] = true
	}
	for _, route := range routes {
		there[route.Tool.Name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, kept := range b.guards[h.name] {
		if !there[name] && kept.slots.InFlight() == 0 {
			delete(b.guards[h.name], name)
			delete(b.breakers, breakerName(h, name))
		}
	}
}

func (b *builder) compileSchema(route *server.Route, wrong func(error)) {
	compiled, err := schema.Compile(route.Tool.Name, route.Tool.InputSchema,
		schema.Options{Sensitive: route.Tool.Policy.Sensitive, Coerce: route.Tool.Policy.Coerce})
	if err != nil {
		wrong(err)
		return
	}
	route.Schema = compiled
}

// discoveredRoutes registers what a backend found. One tool that cannot be used
// is reported and left out; the others are served.
func (b *builder) discoveredRoutes(h *host, found []backend.Discovered) ([]*server.Route, error) {
	var routes []*server.Route
	var errs []error
	for _, d := range found {
		var claimed *tool.Effect
		if d.Claimed {
			claimed = &d.Effect
		}
		as, ok := b.config.Discovered(h.name, d.Name, claimed)
		if !ok {
			continue
		}
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
		route := b.newRoute(h, made, d.Name)
		failed := false
		b.compileSchema(route, func(err error) { failed = true; errs = append(errs, err) })
		b.compileProgram(route, config.Tool{CallRules: as.Rules, OutputSchema: config.JSON(d.OutputSchema)}, func(path []string, err error) {
			failed = true
			errs = append(errs, fmt.Errorf("tool %s: %s: %w", made.Name, strings.Join(path, "."), err))
		})
		compileVerification(route, as.Rules, func(path []string, err error) {
			failed = true
			errs = append(errs, fmt.Errorf("tool %s: %s: %w", made.Name, strings.Join(path, "."), err))
		})
		if !failed {
			routes = append(routes, route)
		}
	}
	b.forgetGuards(h, routes)
	return routes, errors.Join(errs...)
}

// compileProgram compiles what reads the replies of a tool.
func (b *builder) compileProgram(route *server.Route, t config.Tool, wrong func(path []string, err error)) {
	rules := interpret.Config{EmptyWhen: t.EmptyWhen}
	if t.HTTP != nil {
		rules.Success, rules.Result = t.HTTP.Success, t.HTTP.Result
	}
	for _, rule := range t.Errors {
		rules.Errors = append(rules.Errors, interpret.Rule{
			When: rule.When, Code: rule.Code, Hint: rule.Hint, Field: rule.Field,
			AllowedAlternatives: rule.AllowedAlternatives, NotExecuted: rule.NotExecuted,
		})
	}
	if t.Partial != nil {
		rules.Partial = &interpret.PartialRule{
			Items: t.Partial.Items, OK: t.Partial.OK, Content: t.Partial.Content, Error: t.Partial.Error,
		}
	}
	if len(route.Tool.OutputSchema) > 0 {
		compiled, err := schema.CompileOutput(route.Tool.Name, route.Tool.OutputSchema)
		if err != nil {
			wrong([]string{"output_schema"}, err)
			return
		}
		rules.Check = func(result json.RawMessage) error {
			if complaint := compiled.ValidateJSON(result); complaint != "" {
				return errors.New(complaint)
			}
			return nil
		}
	}
	program, err := interpret.Compile(rules)
	if err != nil {
		wrong(nil, err)
		return
	}
	route.Program = program
}

// builtIn is the route of read_output. It has no guards: what it reads is the
// sidecar's own.
func (b *builder) builtIn(store *dedupe.Dedupe) (*server.Route, error) {
	made := output.Tool()
	compiled, err := schema.Compile(made.Name, made.InputSchema, schema.Options{})
	if err != nil {
		return nil, err
	}
	return &server.Route{Tool: made, Schema: compiled, Backend: server.NewReadOutput(store), Target: made.Name}, nil
}
