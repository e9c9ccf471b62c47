package app

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// protection is what protects one backend: what its tools share, and what single
// tools have of their own.
type protection struct {
	name   string
	config config.Backend
	logger *slog.Logger

	slots   *limit.Bulkhead
	rate    *limit.Rate // nil when nothing is said
	retries *retry.Budget
	// connection opens by what concerns the connection to the backend alone.
	connection *breaker.Breaker

	// mu guards tools: they are read for the metrics while the backend discovers.
	mu    sync.Mutex
	tools map[ward]*toolProtection
	// ofTools are the breakers of the tools, by name: another bound says nothing about how one fails.
	ofTools map[string]*breaker.Breaker
}

// ward is whom the protection of a tool is for. With another bound of its own it gets
// others.
type ward struct {
	name   string
	places int // max_in_flight of the tool
}

func wardOf(t tool.Tool) ward { return ward{t.Name, t.Policy.MaxInFlight} }

// sameProtection reports whether a backend is protected by another config of it as by this.
func sameProtection(a, b config.Backend) bool {
	return config.Same(a.Breaker, b.Breaker) && config.Same(a.RateLimit, b.RateLimit) &&
		a.RetryBudget == b.RetryBudget &&
		a.MaxInFlight == b.MaxInFlight && a.Adaptive == b.Adaptive
}

// toolProtection is that of one tool; nil where it has none of its own.
type toolProtection struct {
	breaker  *breaker.Breaker
	capacity *limit.Adaptive
	slots    *limit.Bulkhead
}

func newProtection(name string, cfg config.Backend, logger *slog.Logger) *protection {
	g := &protection{
		name: name, config: cfg, logger: logger,
		slots: limit.NewBulkhead(cfg.MaxInFlight), retries: retry.NewBudget(cfg.RetryBudget.Share, cfg.RetryBudget.PerSecond),
		tools: make(map[ward]*toolProtection), ofTools: make(map[string]*breaker.Breaker),
	}
	g.connection = g.newBreaker(name)
	if cfg.RateLimit != nil {
		g.rate = limit.NewRate(cfg.RateLimit.PerSecond, cfg.RateLimit.Burst)
	}
	return g
}

// of keeps the protection of a tool across rediscoveries: a changed tool list does
// not forget that a tool is failing, nor what it has in flight.
func (g *protection) of(t tool.Tool) *toolProtection {
	g.mu.Lock()
	defer g.mu.Unlock()
	if kept := g.tools[wardOf(t)]; kept != nil {
		return kept
	}
	if g.ofTools[t.Name] == nil {
		g.ofTools[t.Name] = g.newBreaker(g.name + "/" + t.Name)
	}
	made := &toolProtection{breaker: g.ofTools[t.Name]}
	if g.config.Adaptive {
		made.capacity = limit.NewAdaptive()
	}
	if t.Policy.MaxInFlight > 0 {
		made.slots = limit.NewBulkhead(t.Policy.MaxInFlight)
	}
	g.tools[wardOf(t)] = made
	return made
}

// forget drops the protection of tools that are there no more: a backend that
// renames its tools for ever must not fill memory. What has calls in flight stays
// until the next change.
func (g *protection) forget(there func(ward) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := make(map[string]bool, len(g.ofTools))
	for of, has := range g.tools {
		if !there(of) && has.slots.InFlight() == 0 {
			delete(g.tools, of)
			continue
		}
		kept[of.name] = true
	}
	maps.DeleteFunc(g.ofTools, func(name string, _ *breaker.Breaker) bool { return !kept[name] })
}

func (g *protection) newBreaker(name string) *breaker.Breaker {
	return breaker.New(breaker.Settings{
		Name: name, Failures: uint32(g.config.Breaker.Failures),
		Window: g.config.Breaker.Window, OpenFor: g.config.Breaker.OpenFor,
		OnChange: func(name string, from, to breaker.State) {
			g.logger.Warn("breaker", "name", name, "from", from.String(), "to", to.String())
		},
	})
}

// reconnected closes the breakers: what they have seen fail is gone with the
// connection that failed.
func (g *protection) reconnected() {
	g.connection.Reset()
	g.mu.Lock()
	breakers := slices.Collect(maps.Values(g.ofTools))
	g.mu.Unlock()
	for _, b := range breakers { // each writes a line to the log: calls need not wait for that
		b.Reset()
	}
}

// breakers tells the state of each breaker, by its name.
func (g *protection) breakers(tell func(name string, state breaker.State)) {
	tell(g.name, g.connection.State())
	g.mu.Lock()
	defer g.mu.Unlock()
	for tool, b := range g.ofTools {
		tell(g.name+"/"+tool, b.State())
	}
}
