package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/call/result"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/server"
)

// parts are what the fronts stand on: a generation, and what is the process's.
type parts struct {
	config   *config.Config
	instance string // see instance
	drain    *server.Drain
	// life ends, by endLife, what goes on without its caller.
	life       context.Context //nolint:containedctx // the process's, not a call's
	endLife    context.CancelFunc
	bytes      *limit.Bytes // what requests and replies hold
	telemetry  *telemetry.Telemetry
	generation inForce
	late       atomic.Int64 // see surroundings
	catalog    *catalog.Catalog
	dedupe     *dedupe.Dedupe
	book       *conversation.Book // in the store of dedupe
	notifier   *notify.Notifier   // nil where nobody is told
	notified   chan struct{}      // closed when it has ended
}

// open opens the parts in the order in which they need each other. After an
// error, close ends those that there are.
func (p *parts) open(ctx context.Context, options Options) error {
	var err error
	p.instance = instance(p.config)
	if p.telemetry, err = telemetry.Start(ctx, telemetry.Service{Version: options.Version, Instance: p.instance}, options.Log); err != nil {
		return err
	}
	p.telemetry.Logger = masking(p.telemetry.Logger, p.config, p.config.Mask)
	p.bytes = heldBytes(p.config, p.telemetry.Logger, memlimit.FromCgroup)
	p.warn(p.config)
	first, err := newGeneration(p.config, surroundings{logger: p.telemetry.Logger, version: options.Version, late: &p.late, brought: options.Brought.Backends})
	if err != nil {
		return err
	}
	p.generation.Store(first)
	p.warnOf(first.warnings)
	if p.dedupe, p.book, err = openDedupe(p.config, p.instance, p.telemetry, options.Brought.Store); err != nil {
		return err
	}
	if p.notifier, err = newNotifier(p.config, p.telemetry); err != nil {
		return err
	}
	if err := p.dedupe.Alone(ctx); err != nil {
		return fmt.Errorf("store: redis: %w", err)
	}
	readOutput, err := builtIn(result.Outputs{Dedupe: p.dedupe, Book: p.book})
	if err != nil {
		return err
	}
	first.serve(readOutput)
	p.catalog = catalog.New(first.tools)
	return errors.Join(observeBreakers(&p.generation, p.telemetry), observeWorkers(&p.generation, &p.late, p.telemetry), observeJournal(p.dedupe, p.config.Store.Kind(), p.telemetry))
}

// warn says what may be a mistake in a config.
func (p *parts) warn(cfg *config.Config) {
	p.warnOf(cfg.Warnings())
	p.warnOf(exposed(cfg))
}

// warnOf logs findings, at most MaxProblems of them: sidecall check lists all.
func (p *parts) warnOf(problems []config.Problem) {
	for i, problem := range problems {
		if i == config.MaxProblems && len(problems) > i+1 { // a config's own list ends with one that says so
			p.telemetry.Logger.Warn("config", "problem", fmt.Sprintf("and %d more: sidecall check lists them", len(problems)-i))
			return
		}
		if problem.Severity() == config.Doubtful {
			p.telemetry.Logger.Warn("config", "problem", problem.Error(), "rule", string(problem.Rule))
		} else {
			p.telemetry.Logger.Info("config", "note", problem.Error(), "rule", string(problem.Rule))
		}
	}
}

// close ends the parts that there are, each before those that it needs.
func (p *parts) close(ctx context.Context) error {
	var errs []error
	if last := p.generation.Load(); last != nil {
		errs = append(errs, last.retire(ctx))
	}
	if p.notified != nil {
		p.endLife()
		<-p.notified
	}
	if p.dedupe != nil {
		errs = append(errs, p.dedupe.Close(ctx))
	}
	if p.telemetry != nil {
		errs = append(errs, p.telemetry.Close(ctx))
	}
	return errors.Join(errs...)
}
