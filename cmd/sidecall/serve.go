package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/telemetry"
)

// drainTimeout is how long calls in flight may take to end after SIGTERM; the
// usual grace of an orchestrator is 30 s.
const drainTimeout = 25 * time.Second

func newServe() *cobra.Command {
	var path string
	var level string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the sidecar",
		Long: `Run the sidecar that a config file describes, until SIGINT or SIGTERM. Then new
calls are handed back as UNAVAILABLE, which is safe to send again, and calls in
flight may end, for 25 s at most. Those that still run then are cut off, and the
exit code is 1. A second signal ends the process at once: what became of the
calls in flight is then decided at the next start.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := telemetry.NewLines(os.Stderr)
			defer func() { _ = lines.Close() }() // a log that cannot be written has nobody to tell
			logger, err := newLogger(lines, level)
			if err != nil {
				return fail(exitUsage, err)
			}
			cfg, err := config.Load(path)
			if err != nil {
				return fail(exitUsage, err)
			}
			tuneGC()
			return serve(cmd.Context(), cfg, logger)
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "sidecall.yaml", "the config file")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error; info writes one line per call")
	return cmd
}

// gcPercent trades memory for processor time: what is alive in a sidecar is a
// few MiB, and at Go's default of 100 collecting it takes a sixth of a loaded
// sidecar's time. GOGC in the environment wins.
const gcPercent = 300

func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func newLogger(out io.Writer, level string) (slog.Handler, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l}), nil
}

// sidecar is everything that serve has started, in the order in which it was.
type sidecar struct {
	config    *config.Config
	telemetry *telemetry.Telemetry
	builder   *builder
	registry  *server.Registry
	dedupe    *dedupe.Dedupe
	drain     *server.Drain

	grpc   *grpc.Server
	health *health.Server
	admin  *http.Server

	// running ends with what it counts: listeners and discovery.
	running sync.WaitGroup
	failed  chan error
	// stopDiscovery ends the discovery of tools.
	stopDiscovery context.CancelFunc
}

// serve runs a sidecar until ctx ends or a part of it fails.
func serve(ctx context.Context, cfg *config.Config, log slog.Handler) error {
	began := time.Now()
	s := &sidecar{config: cfg, registry: server.NewRegistry(), drain: server.NewDrain(), failed: make(chan error, 8)}
	if err := s.start(ctx, log); err != nil {
		return errors.Join(err, s.stop())
	}
	s.telemetry.Logger.Info("ready", "listen", config.RevealList(cfg.Listen), "admin", cfg.Admin.Reveal(),
		"store", cfg.Store.Kind(), "tools", len(s.registry.Names()), "start_ms", time.Since(began).Milliseconds())
	var failure error
	select {
	case <-ctx.Done():
		s.telemetry.Logger.Info("draining")
	case failure = <-s.failed:
		s.telemetry.Logger.Error("stopping", "error", failure)
		failure = fail(exitUnavailable, failure)
	}
	return errors.Join(failure, s.stop())
}

func (s *sidecar) start(ctx context.Context, log slog.Handler) error {
	var err error
	if s.telemetry, err = telemetry.Start(ctx, buildVersion().Version, log); err != nil {
		return fail(exitUnavailable, err)
	}
	s.warn()
	s.builder = newBuilder(s.config, s.telemetry.Logger)
	routes, err := s.builder.build()
	if err != nil {
		return fail(exitUsage, err)
	}
	store, err := openStore(s.config, s.telemetry)
	if err != nil {
		return fail(exitUnavailable, err)
	}
	journal, err := openJournal(s.config, s.telemetry)
	if err != nil {
		return fail(exitUnavailable, errors.Join(err, store.Close()))
	}
	s.dedupe = dedupe.New(store, dedupe.Options{
		Journal: journal, Log: s.telemetry.Logger,
		Lease: s.config.Lease, Retention: s.config.Retention, Incarnation: incarnation(),
	})
	builtin, err := s.builder.builtIn(s.dedupe)
	if err != nil {
		return fail(exitUnavailable, err)
	}
	s.registry.Set(server.ConfigSource, append(routes, builtin))
	if err := errors.Join(s.observe(), s.observeJournal()); err != nil {
		return fail(exitUnavailable, err)
	}
	s.build()
	if err := s.listen(); err != nil {
		return fail(exitUnavailable, err)
	}
	// What the start needed beyond what is kept (the text of the config, the
	// compilers' garbage) goes back to the system.
	s.config.Release()
	debug.FreeOSMemory()
	s.discover()
	return nil
}

// warn says at start what may be a mistake, and what is read but does nothing.
func (s *sidecar) warn() {
	for _, p := range s.config.Warnings() {
		s.telemetry.Logger.Warn("config", "problem", p.Error())
	}
	for _, p := range s.config.NotEnforced() {
		s.telemetry.Logger.Warn("config", "not_enforced", p.Error())
	}
}

// incarnation names this process in the records it owns.
func incarnation() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

const (
	// maxLooks is how many calls that find no room have their ids looked up at
	// the same time: enough to keep a store busy, and too few to burden it.
	maxLooks = 64
	// refusedStreams is the room that a connection has for calls that are being
	// refused. Without it a client would hold back what is too much, silently,
	// until its deadline.
	refusedStreams = 1024
)

// build assembles the parts that answer requests.
func (s *sidecar) build() {
	limits := s.config.Limits
	executor := &server.Executor{
		Registry: s.registry,
		Profiles: profiles(s.config),
		Dedupe:   s.dedupe,
		Recorder: s.telemetry.Recorder,
		Slots:    limit.NewBulkhead(limits.MaxInFlight),
		Waiting:  limit.NewBulkhead(limits.MaxWaiting),
		Looks:    limit.NewBulkhead(maxLooks),
		Options: server.Options{
			KeepOutputBytes:  int64(limits.KeepOutputBytes),
			OutputTTL:        limits.OutputTTL,
			BatchParallel:    limits.BatchParallel,
			RefuseUnrecorded: s.config.StoreDown.ReadOnly == "refuse",
		},
	}
	service := &server.Service{Executor: executor, Drain: s.drain, MaxBatch: limits.MaxBatch}
	s.grpc, s.health = server.NewGRPC(service, s.telemetry.Logger, server.GRPCOptions{
		MaxRequestBytes: int(limits.MaxRequestBytes), MaxStreams: uint32(limits.MaxInFlight + limits.MaxWaiting + refusedStreams),
	})
	admin := &server.Admin{Metrics: s.telemetry.Metrics, Dedupe: s.dedupe, Registry: s.registry, Drain: s.drain}
	s.admin = &http.Server{Handler: admin.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
}

func profiles(cfg *config.Config) server.Profiles {
	all := server.Profiles{Default: cfg.DefaultProfile, ByName: make(map[string]server.Profile)}
	for _, name := range cfg.ProfileNames() {
		if p, ok := cfg.Profile(name); ok {
			all.ByName[name] = server.Profile{Name: name, Tools: p.Tools}
		}
	}
	return all
}

// listen opens every address before any of them serves: a sidecar that cannot
// have one of them does not start.
func (s *sidecar) listen() error {
	var listeners []net.Listener
	closeAll := func(err error) error {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	for _, address := range config.RevealList(s.config.Listen) {
		listener, err := server.Listen(address)
		if err != nil {
			return closeAll(err)
		}
		listeners = append(listeners, listener)
	}
	var admin net.Listener
	if address := s.config.Admin.Reveal(); address != "off" {
		var err error
		if admin, err = server.Listen("tcp://" + address); err != nil {
			return closeAll(fmt.Errorf("admin: %w", err))
		}
	}
	for _, listener := range listeners {
		s.running.Go(func() { s.report(s.grpc.Serve(listener)) })
	}
	if admin != nil {
		s.running.Go(func() { s.report(s.admin.Serve(admin)) })
	}
	return nil
}

// report passes on why a listener ended, unless it was asked to.
func (s *sidecar) report(err error) {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
		return
	}
	select {
	case s.failed <- err:
	default: // the first failures are enough to stop for
	}
}

// discover keeps the connection to every backend that finds its tools itself.
// None of them delays the start or the others.
func (s *sidecar) discover() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopDiscovery = cancel
	for name, h := range s.builder.hosts {
		discoverer, ok := h.backend.(backend.Discoverer)
		if !ok {
			continue
		}
		s.running.Go(func() {
			discoverer.Run(ctx, func(found []backend.Discovered, err error) { s.discovered(name, h, found, err) })
		})
	}
}

// discovered takes what a backend says of itself: tools, or why there are none.
// The words are its own, and may quote what it was entrusted with.
func (s *sidecar) discovered(name string, h *host, found []backend.Discovered, err error) {
	logger := redacting(s.telemetry.Logger, h.secrets)
	if err != nil {
		logger.Warn("backend down", "backend", name, "error", err)
		reason := err.Error()
		if h.secrets != nil {
			reason = h.secrets.Replace(reason)
		}
		s.registry.SetDown(name, reason)
		return
	}
	routes, err := s.routesOf(h, found)
	if err != nil {
		logger.Warn("tools that cannot be used", "backend", name, "error", err)
	}
	for _, collision := range s.registry.Set(name, routes) {
		if collision.Kept == name || collision.Dropped == name {
			logger.Error("name collision", "problem", collision.String())
		}
	}
	for _, problem := range s.registry.Unverifiable() {
		logger.Error("verification that cannot be made", "problem", problem)
	}
	logger.Info("backend up", "backend", name, "tools", len(routes))
}

// routesOf is discoveredRoutes for the schemas of strangers: a bug in what
// compiles them must not end the process, with every call in flight.
func (s *sidecar) routesOf(h *host, found []backend.Discovered) (routes []*server.Route, err error) {
	defer func() {
		if p := recover(); p != nil {
			routes, err = nil, fmt.Errorf("the tool list makes the sidecar fail: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.builder.discoveredRoutes(h, found)
}

// observe registers the metrics that are read when they are collected.
func (s *sidecar) observe() error {
	return s.telemetry.Gauge("sidecall.breaker.state", "State of each breaker: 0 closed, 1 half-open, 2 open.",
		func(report func(int64, string, string)) {
			s.builder.mu.Lock()
			defer s.builder.mu.Unlock()
			for name, made := range s.builder.breakers {
				report(stateNumber(made.State()), "sidecall.breaker", name)
			}
		})
}

func stateNumber(state breaker.State) int64 {
	switch state {
	case breaker.Closed:
		return 0
	case breaker.HalfOpen:
		return 1
	default:
		return 2
	}
}

// stop ends everything in the reverse order of its start: no new calls, calls
// in flight to their end, then what they stood on. It is safe on a sidecar
// that started only in part.
func (s *sidecar) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	var errs []error
	if s.health != nil {
		s.health.Shutdown()
	}
	if left := s.drain.Start(ctx); left > 0 {
		errs = append(errs, fmt.Errorf("%d requests were still in flight after %s", left, drainTimeout))
	}
	if s.grpc != nil {
		last, cancel := context.WithTimeout(ctx, lastAnswers)
		stopGRPC(last, s.grpc)
		cancel()
	}
	ctx, cancel = context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.stopDiscovery != nil {
		s.stopDiscovery()
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Shutdown(ctx))
	}
	if s.builder != nil {
		errs = append(errs, s.builder.close(ctx))
	}
	s.running.Wait()
	if s.dedupe != nil {
		errs = append(errs, s.dedupe.Close(ctx))
	}
	if s.telemetry != nil {
		errs = append(errs, s.telemetry.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fail(exitFailed, fmt.Errorf("while stopping: %w", err))
	}
	return nil
}

// lastAnswers is how long the answers of calls that have ended have to get out.
// Streams without an end (a watch of the health) take no longer.
const lastAnswers = 2 * time.Second

// stopGRPC lets the last answers out, then closes the connections.
func stopGRPC(ctx context.Context, s *grpc.Server) {
	stopped := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		s.Stop()
		<-stopped
	}
}
