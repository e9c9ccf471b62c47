package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/definition"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

// discovery routes what those backends of a generation find that find their tools
// themselves.
type discovery struct {
	config *config.Config
	tools  *catalog.Generation
	pins   *definition.Pins
	// counsel may name tools that nobody has found.
	counsel *counsel

	// complete is called once, when the generation is in force and every backend that is
	// not optional has been discovered for the first time.
	complete func()
	inForce  atomic.Bool
	told     sync.Once
	// others have a discovery that an earlier generation hears until this one takes over; begun
	// have their first.
	others, begun []*host
}

// expect announces the backends whose tools follow.
func (d *discovery) expect(hosts map[string]*host) {
	for name, h := range hosts {
		if _, ok := h.Backend.(backend.Discoverer); ok {
			d.tools.Expect(name, catalog.Undiscovered{Prefix: h.config.Prefix, Mentioned: h.config.Mentioned(), Optional: !h.config.Awaited()})
			if h.config.Worker != nil {
				d.tools.SetDown(name, "no worker has come yet")
			}
		}
	}
}

// start begins the discovery of the backends that have none yet. None of them delays the
// others.
func (d *discovery) start(hosts map[string]*host, complete func()) {
	d.complete = complete
	for _, h := range hosts {
		switch _, ok := h.Backend.(backend.Discoverer); {
		case !ok:
		case h.end != nil:
			d.others = append(d.others, h)
		default:
			d.begun = append(d.begun, h)
			d.examineWorkers(h)
			h.discover(d.listener(h))
		}
	}
}

// takeOver hears from now on what the other backends say, too. They keep the names that
// they have in the generation before, which is nil for the first.
func (d *discovery) takeOver(before *generation) {
	if before != nil {
		d.tools.Inherit(before.tools)
	}
	d.inForce.Store(true)
	for _, h := range d.others {
		h.tellInstead(d.listener(h))
		d.adoptWorkers(h)
	}
	for _, h := range d.begun {
		h.pinNow(d.listener(h))
	}
	d.tellComplete()
}

func (d *discovery) listener(h *host) func(found []tool.Discovered, err error) {
	return func(found []tool.Discovered, err error) { d.heard(h, found, err) }
}

// maxReason bounds what is told of a backend that is down, in characters.
const maxReason = 1000

// ownWords are words of a backend about itself, safe to be told and bounded.
func (h *host) ownWords(text string) string {
	return tool.Shorten(h.secrets.Replace(output.Clean([]byte(h.mask(text)))), maxReason)
}

// tellComplete says that the first discovery is over, if it is.
func (d *discovery) tellComplete() {
	if d.inForce.Load() && d.tools.Snapshot().Discovered() {
		d.told.Do(d.complete)
	}
}

// heard takes what a backend says of itself: tools, or why there are none. The
// words are its own.
func (d *discovery) heard(h *host, found []tool.Discovered, err error) {
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, backend.ErrLeft) {
			level = slog.LevelInfo
		}
		h.logger.Log(context.Background(), level, "backend down", "backend", h.name, "error", err)
		h.lost = true
		d.tools.SetDown(h.name, h.ownWords(err.Error()))
		return
	}
	if h.lost {
		h.lost = false
		h.protection.reconnected()
	}
	routes, err := d.compile(h, found)
	if err != nil {
		h.logger.Warn("tools that cannot be used", "backend", h.name, "error", err)
	}
	for _, collision := range d.tools.Set(h.name, routes) {
		if collision.Kept == h.name || collision.Dropped == h.name {
			h.logger.Error("name collision", "problem", collision.String())
		}
	}
	for _, problem := range d.tools.Snapshot().Unverifiable() {
		h.logger.Error("verification that cannot be made", "problem", problem)
	}
	for _, target := range targetsAstray(h, routes) {
		h.logger.Warn("recovery target that is not there", "at", strings.Join(target.at, "."), "problem", target.why)
	}
	if snapshot := d.tools.Snapshot(); snapshot.Discovered() { // else it may still be found
		for _, problem := range d.counsel.gone(snapshot) {
			h.logger.Warn("suggestion that is never made", "problem", problem)
		}
	}
	h.logger.Info("backend up", "backend", h.name, "tools", len(routes))
	d.tellComplete()
}

// compile is discoveredRoutes for schemas that others wrote: a bug in what
// compiles them must not end the process, with every call in flight.
func (d *discovery) compile(h *host, found []tool.Discovered) (routes []*catalog.Route, err error) {
	defer func() {
		if p := recover(); p != nil {
			routes, err = nil, fmt.Errorf("the tool list makes the sidecar fail: panic: %v\n%s", p, debug.Stack())
		}
	}()
	pins := d.pins
	if !d.inForce.Load() { // perhaps it never is
		pins = pins.Unwritten()
	}
	routes, err = discoveredRoutes(h, found, d.config, pins)
	h.unpinned = pins.Left()
	return routes, err
}
