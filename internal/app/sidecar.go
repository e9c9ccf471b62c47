package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/server"
)

// Sidecar is a running sidecar.
type Sidecar struct {
	parts  parts
	fronts *fronts
	// succession has other configs take over; follower, which may be nil, says when.
	succession *succession
	follower   *follower
	discovered sync.Once
	// whole is closed when every tool is there that is waited for.
	whole chan struct{}
	// operator is where operators are served, or why they are not.
	operator string
	began    time.Time
}

// Start starts the sidecar that a config describes; it takes the config over.
// When it returns, calls are taken; the tools of backends that say themselves
// which they have follow, and with them it is ready. Whoever starts a sidecar stops
// it, with Stop.
//
// An error in which errors.As finds config.Problems says that the config is
// wrong. Any other says that something is not there which the sidecar needs: its
// store, an address to listen on. Nothing of it runs then.
func Start(ctx context.Context, cfg *config.Config, options Options) (*Sidecar, error) {
	life, endLife := context.WithCancel(context.Background())
	s := &Sidecar{began: time.Now(), whole: make(chan struct{}), parts: parts{config: cfg, drain: server.NewDrain(), life: life, endLife: endLife}}
	if err := s.start(ctx, options); err != nil {
		return nil, maskError(cfg, errors.Join(err, s.parts.giveBack(options), s.Stop(ctx)))
	}
	return s, nil
}

// serving says that calls are taken, and whose tools are awaited.
func (s *Sidecar) serving() {
	cfg := s.parts.config
	waiting := slices.Sorted(maps.Keys(s.parts.catalog.Snapshot().Undiscovered()))
	s.parts.telemetry.Logger.Info("serving", "listen", config.RevealList(cfg.Listen), "admin", cfg.Admin.Reveal(), "http", cfg.HTTP.Reveal(),
		"operator", s.operator, "instance", s.parts.instance, "store", cfg.Store.Kind(), "undiscovered", waiting, "start_ms", time.Since(s.began).Milliseconds())
}

// ready says that every tool is there that is waited for, the first time.
func (s *Sidecar) ready() { s.discovered.Do(s.sayReady) }

func (s *Sidecar) sayReady() {
	s.fronts.ready()
	close(s.whole)
	s.parts.telemetry.Logger.Info("ready", "tools", len(s.parts.catalog.Snapshot().Names()), "start_ms", time.Since(s.began).Milliseconds())
}

// Ready is closed when the tools of every backend are known, but for the optional ones
// that are not there.
func (s *Sidecar) Ready() <-chan struct{} { return s.whole }

// Missing are the backends that keep the sidecar from being ready, each with the reason.
func (s *Sidecar) Missing() map[string]string {
	missing := make(map[string]string)
	for name, u := range s.parts.catalog.Snapshot().Undiscovered() {
		if !u.Optional {
			missing[name] = u.Why()
		}
	}
	return missing
}

func (s *Sidecar) start(ctx context.Context, options Options) error {
	if err := s.parts.open(ctx, options); err != nil {
		return err
	}
	opened, err := listen(s.parts.config)
	if err != nil {
		return err
	}
	if opened.operators == nil && s.parts.config.Operator.Reveal() == "" {
		s.parts.telemetry.Logger.Warn("no operator's surface: calls of unknown outcome cannot be settled by hand", "operator", opened.operator)
	}
	s.operator = opened.operator
	s.fronts = newFronts(&s.parts, opened.operator, options.Version)
	s.succession = newSuccession(&s.parts, options.Version, s.ready)
	if err := s.follow(options.Source); err != nil {
		return opened.close(err)
	}
	s.serving()
	s.parts.config.Release()
	// Before anybody is answered: who can call is told that what needs no discovery is ready.
	first := s.parts.generation.Load()
	first.discover(s.ready)
	first.takeOver(nil)
	s.fronts.serve(opened)
	s.parts.notify()
	// What the start needed beyond what is kept (the text of the config, the
	// compilers' garbage) goes back to the system.
	debug.FreeOSMemory()
	if s.follower != nil {
		go s.follower.run()
	}
	return nil
}

// follow prepares for what its source may say later.
func (s *Sidecar) follow(source Source) error {
	if source == nil {
		return nil
	}
	f := newFollower(s.succession, source)
	if err := observeReloads(f, s.parts.telemetry); err != nil {
		return err
	}
	s.follower, s.fronts.pages.Config = f, func() (refused, waiting string) {
		last := s.Following()
		return last.Refused, last.Waiting
	}
	return nil
}

// Reload asks for the config to be read anew from its Source, and to take over if it is
// right. It does not wait for that: the log, /readyz and the metrics tell what became
// of it. Without a Source it does nothing.
func (s *Sidecar) Reload() {
	if s.follower != nil {
		s.follower.wish()
	}
}

// Config is the config in force.
func (s *Sidecar) Config() *config.Config { return s.parts.generation.Load().config }

// Following is what became of the last config that was read from the Source, which there is.
func (s *Sidecar) Following() Following { return s.follower.outcome.following() }

// Wait waits until ctx ends, which is no error, or until the sidecar fails: the
// error says why it takes no more calls. It is to be stopped after either.
func (s *Sidecar) Wait(ctx context.Context) error {
	logger := s.parts.telemetry.Logger
	select {
	case <-ctx.Done():
		logger.Info("draining")
		return nil
	case err := <-s.parts.dedupe.Ousted():
		logger.Error("stopping", "error", err)
		return err
	case err := <-s.fronts.failed:
		logger.Error("stopping", "error", err)
		return err
	}
}

// closing is how long what the calls stood on has to end, when the calls have.
const closing = 5 * time.Second

// Stop ends everything in the reverse order of its start: no new calls, calls in
// flight to their end, at most until ctx ends, then their answers (2 s at the
// most), then what they stood on (5 s at the most, and 3 s for a disk that stands still). The
// error says what did not end well, calls that were cut off among it. A sidecar is stopped once.
func (s *Sidecar) Stop(ctx context.Context) error {
	began := time.Now()
	var errs []error
	if s.follower != nil {
		s.follower.end()
	}
	if s.fronts != nil {
		s.fronts.health.Shutdown()
	}
	if now := s.parts.generation.Load(); now != nil {
		now.goodbye()
	}
	if left := s.parts.drain.Start(ctx); left > 0 {
		errs = append(errs, fmt.Errorf("%s still in flight after %s", tool.Count(left, "request"), time.Since(began).Round(time.Second)))
	}
	s.parts.endLife() // whoever still waits is told what became of its call
	if now := s.parts.generation.Load(); now != nil {
		now.sendAway() // their streams would hold the fronts
	}
	if s.fronts != nil {
		errs = append(errs, s.fronts.stop())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if s.follower != nil {
		errs = append(errs, s.follower.wait(ctx))
	}
	if last := s.parts.generation.Load(); last != nil {
		last.silence()
	}
	if s.fronts != nil {
		errs = append(errs, s.fronts.admin.Shutdown(ctx))
		s.fronts.serving.Wait()
	}
	if s.succession != nil {
		errs = append(errs, s.succession.close(ctx))
	}
	errs = append(errs, s.parts.close(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("while stopping: %w", err)
	}
	return nil
}
