package app

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/schema"
)

// generation is all that one config makes: backends, the protection of their tools,
// and routes. What the config says does not change in it; what its backends find
// comes and goes.
type generation struct {
	config *config.Config
	hosts  map[string]*host
	// declared are the routes of the tools of the file.
	declared []*catalog.Route
	// tools are what can be called of it now.
	tools     *catalog.Generation
	discovery discovery
	counsel   *counsel
	// known are the secrets that no tool of it may show, those of configs before it at the end.
	known []string
	// observed is where profiles write down what they observe; nothing is opened before the first does.
	observed *observed.Log
	// warnings are of what may hurt.
	warnings []config.Problem
}

// newGeneration builds every backend and every declared route. Nothing is
// connected or started yet. The error is config.Problems: everything that is
// wrong, by position.
func newGeneration(cfg *config.Config, around surroundings) (*generation, error) {
	found := &problems{config: cfg}
	around.logger = masking(around.logger, cfg, cfg.Mask)
	g := draw(cfg, around, found)
	config.SortProblems(found.warnings) // a start says the first of them only
	g.warnings = found.warnings
	if err := found.err(); err != nil {
		return nil, errors.Join(err, g.close(context.Background()))
	}
	return g, nil
}

// draw builds what can be built of a config, and finds everything that keeps the
// rest from it, or may hurt.
func draw(cfg *config.Config, around surroundings, found *problems) *generation {
	g := &generation{config: cfg, hosts: make(map[string]*host), observed: observed.To(cfg.ObservedFile(), around.logger)}
	g.tools = catalog.NewGeneration(profiles(cfg, g.observed, found), limits(cfg))
	if err := observed.Check(cfg.ObservedFile()); err != nil {
		found.add(config.RuleValue, err.Error(), "observe", "file")
	}
	g.discovery.config, g.discovery.tools = cfg, g.tools
	g.discovery.pins = openPins(cfg, around, found)
	checkStore(cfg, found)
	g.known = withFormer(allSecrets(cfg), around.before)
	around.secrets = g.known
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		if !cfg.Backends[name].HasOneKind() {
			continue // the file itself is wrong
		}
		made, err := newHost(name, cfg, around)
		if err != nil {
			path := []string{"backends", name, cfg.Backends[name].Kind()}
			if at, ok := errors.AsType[keyError](err); ok {
				path = append(path, at.key)
			}
			found.add(config.RuleBackend, err.Error(), path...)
			continue
		}
		g.hosts[name] = made
	}
	drafts := make(map[string]schema.Draft, len(cfg.Tools))
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		route, draft := declaredRoute(hostOf(cfg.Tools[name], g.hosts), name, cfg, found)
		if drafts[name] = draft; route != nil {
			g.declared = append(g.declared, route)
		}
	}
	g.counsel = newCounsel(cfg, found)
	g.discovery.counsel = g.counsel
	g.tools.Advise(g.counsel.advice(cfg))
	inspect(cfg, drafts, found)
	return g
}

// serve makes the tools of the file callable, and with them those that the
// sidecar brings itself.
func (g *generation) serve(brought *catalog.Route) {
	compileRecovery(brought, config.CallRules{}, g.config, nil) // which has no paths that could be wrong
	g.tools.Set(catalog.ConfigSource, slices.Concat(g.declared, []*catalog.Route{brought}))
	g.discovery.expect(g.hosts)
}

// discover begins to find the tools of the backends that say themselves which
// they have, but for those that an earlier generation has, too. complete is called,
// once, when the generation is in force and all of them have that are not optional.
func (g *generation) discover(complete func()) { g.discovery.start(g.hosts, complete) }

// takeOver puts the generation in force: whatever its backends say, it hears. before is
// the one that was, nil for the first.
func (g *generation) takeOver(before *generation) {
	for _, h := range g.hosts {
		h.live.Store(h.secrets)
		if !h.config.Discovers() {
			h.protection.forget(func(of ward) bool {
				t, declared := g.config.Tools[of.name]
				return declared && t.Backend == h.name && g.config.Policy(of.name).MaxInFlight == of.places
			})
		}
	}
	g.discovery.takeOver(before)
}

// missing is a backend that nobody has asked for its tools before and that has to be
// asked before the generation can take over; nil when there is none any more.
func (g *generation) missing() *host {
	waiting := g.tools.Snapshot().Undiscovered()
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if h := g.hosts[name]; !waiting[name].Optional && !slices.Contains(g.discovery.others, h) {
			return h
		}
	}
	return nil
}

// host is the backend of a name; nil where there is none.
func (g *generation) host(name string) *host {
	if g == nil {
		return nil
	}
	return g.hosts[name]
}

// silence asks for the end of every discovery.
func (g *generation) silence() {
	for _, h := range g.hosts {
		if h.premises != nil {
			h.silence()
		}
	}
}

// retire ends the backends that no other generation has, when the last call has given
// this one back. Calls that still have it when ctx ends are told in the error, and lose
// their backends all the same.
func (g *generation) retire(ctx context.Context) error {
	return errors.Join(g.tools.Retire(ctx), g.close(ctx), g.observed.Close())
}

// close leaves the backends, all at the same time: each has all of the time there is.
func (g *generation) close(ctx context.Context) error {
	errs := make(chan error, len(g.hosts))
	for _, h := range g.hosts {
		go func() { errs <- h.leave(ctx) }()
	}
	var all []error
	for range g.hosts {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// breakers tells the state of each breaker, by its name.
func (g *generation) breakers(tell func(name string, state breaker.State)) {
	for _, h := range g.hosts {
		h.protection.breakers(tell)
	}
}
