package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend/worker"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/definition"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
)

func entrustedWorker(config.Backend) entrusted { return entrusted{} }

func buildWorker(b blueprint) (built, error) {
	return built{worker.New(workerConfig(b)), nothingToRegister}, nil
}

func workerConfig(b blueprint) worker.Config {
	cfg := b.config.Worker
	return worker.Config{
		Name: b.name, Prefix: b.config.Prefix, MaxWorkers: cfg.MaxWorkers, MaxTools: cfg.MaxTools,
		MaxInFlight: b.config.MaxInFlight, Heartbeat: cfg.Heartbeat, MaxMessage: b.maxRequest, Late: b.late, Logger: b.logger,
	}
}

// examineWorkers has what workers register looked at before any of it is there.
func (d *discovery) examineWorkers(h *host) {
	if workers, ok := h.Backend.(*worker.Backend); ok {
		workers.Examine(d.examiner(h))
	}
}

// adoptWorkers has a backend that an earlier generation had, and the workers that are
// there, go by this one.
func (d *discovery) adoptWorkers(h *host) {
	if workers, ok := h.Backend.(*worker.Backend); ok {
		workers.Adopt(workerConfig(blueprint{name: h.name, config: h.config, maxRequest: int64(d.config.Limits.MaxRequestBytes), logger: h.logger}), d.examiner(h))
	}
}

func (d *discovery) examiner(h *host) worker.Examiner {
	return func(found []tool.Discovered) ([]worker.Admitted, error) { return d.examine(h, found) }
}

// examine says what tools of a backend become, as heard makes them, and changes
// nothing. One that cannot be used, or whose name is taken, is an error.
func (d *discovery) examine(h *host, found []tool.Discovered) (admitted []worker.Admitted, err error) {
	defer func() {
		if p := recover(); p != nil { // in what compiles schemas that others wrote
			admitted, err = nil, fmt.Errorf("the tools make the sidecar fail: panic: %v", p)
		}
	}()
	quiet := slog.New(slog.DiscardHandler)
	trial := &host{built: h.built, premises: newPremises(site{}, quiet, nil), name: h.name, config: h.config, secrets: h.secrets, mask: h.mask, protection: newProtection(h.name, h.config, quiet)}
	patterns, cleaner := &allowance{maxBackendPatterns}, definition.Cleaner{}
	if h.secrets != nil {
		cleaner.Secrets = h.secrets
	}
	for _, f := range found {
		as, offered := d.config.Discovered(h.name, f.Name, claimedEffect(f))
		if !offered {
			admitted = append(admitted, worker.Admitted{Name: h.config.Prefix + f.Name, Effect: f.Effect, LeftOut: true})
			continue
		}
		if taken := d.tools.Taken(as.Name, h.name); taken != nil {
			return nil, &worker.TakenError{Name: as.Name, By: ownerOf(taken)}
		}
		if _, err := discoveredRoute(trial, f, as, d.config, &cleaner, patterns); err != nil {
			return nil, err
		}
		admitted = append(admitted, worker.Admitted{Name: as.Name, Effect: as.Effect})
	}
	return admitted, nil
}

// ownerOf says whose a name is.
func ownerOf(taken *catalog.Collision) string {
	switch {
	case taken.Kept == catalog.BuiltIn:
		return "Sidecall itself"
	case taken.Prefix != "":
		return "the backend " + taken.Kept + ", whose prefix it has"
	}
	return "the backend " + taken.Kept
}

// workers are the worker backends of a generation, by name.
func (g *generation) workers() map[string]*worker.Backend {
	found := make(map[string]*worker.Backend)
	for name, h := range g.hosts {
		if w, ok := h.Backend.(*worker.Backend); ok {
			found[name] = w
		}
	}
	return found
}

// goodbye tells the workers that the sidecar is about to go.
func (g *generation) goodbye() {
	for _, w := range g.workers() {
		w.Goodbye()
	}
}

// sendAway ends the streams of the workers.
func (g *generation) sendAway() {
	for _, w := range g.workers() {
		w.End()
	}
}

// part tells the workers of the backends that the next generation does not have that
// they have to look for another one. Their calls go on.
func (g *generation) part(next *generation) {
	for name, w := range g.workers() {
		if kept := next.host(name); kept == nil || kept.premises != g.hosts[name].premises {
			w.Goodbye()
		}
	}
}

// reception leads workers to the backend that they name, in the generation that is in
// force when they come: a later one may have worker backends that the first has not.
type reception struct{ serving *inForce }

// Serve implements server.Workers.
func (r reception) Serve(tenant string, offered []string, register *sidecallv1.WorkerRegister, stream server.WorkerStream) error {
	now := r.serving.Load()
	all, name := now.workers(), register.GetBackend()
	names := slices.Sorted(maps.Keys(all))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	if now.oneTenant() {
		tenant = "" // there is none whose tools it might say something of
	}
	if to, ok := all[name]; ok {
		if err := now.mayServe(offered, name, register); err != nil {
			to.Refuse(tenant, register, err)
			return err
		}
		return to.Serve(tenant, register, stream)
	}
	if len(names) == 0 {
		return server.ErrNoWorkers
	}
	if name == "" {
		return status.Errorf(codes.InvalidArgument, "backend: there are several worker backends: name one of %s", strings.Join(names, ", "))
	}
	return status.Errorf(codes.NotFound, "backend: there is no worker backend %.100q: want one of %s", name, strings.Join(names, ", "))
}

// oneTenant reports that all listeners offer the same profiles.
func (g *generation) oneTenant() bool {
	for _, l := range g.config.Listen {
		if !slices.Equal(slices.Sorted(slices.Values(l.Profiles)), slices.Sorted(slices.Values(g.config.Listen[0].Profiles))) {
			return false
		}
	}
	return true
}

// mayServe refuses tools that nobody may call at the address that the worker came by:
// an agent that is kept to some tools must not offer others to those who are not.
func (g *generation) mayServe(offered []string, name string, register *sidecallv1.WorkerRegister) error {
	if len(offered) == 0 {
		return nil
	}
	profiles, prefix := g.tools.Snapshot().Profiles, g.config.Backends[name].Prefix
	for _, t := range register.GetTools() {
		if !slices.ContainsFunc(offered, func(profile string) bool { return profiles.ByName[profile].Allows(prefix + t.GetName()) }) {
			return status.Errorf(codes.PermissionDenied, "tool %.100q: no profile of this address (%s) may call it, so it cannot be served from here", t.GetName(), strings.Join(offered, ", "))
		}
	}
	return nil
}

// observeWorkers registers the metrics of workers. late counts over all configs.
func observeWorkers(g *inForce, late *atomic.Int64, t *telemetry.Telemetry) error {
	if err := t.Gauge("sidecall.workers", "Workers that are connected, of each worker backend.",
		func(report func(int64, string, string)) {
			for name, w := range g.Load().workers() {
				report(int64(w.Workers()), "sidecall.backend", name)
			}
		}); err != nil {
		return err
	}
	return t.Counter("sidecall.worker.late_results", "Results of workers for which nobody waited any more, or which belong to no call.", late.Load)
}
