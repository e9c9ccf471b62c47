package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/call/result"

	"github.com/sidecall/sidecall/internal/config"
)

// mostRetiring bounds the generations that calls still have though others have taken
// over: each holds the schemas of all of its tools. With a call of a day's deadline in
// each of them, one more config waits until one of the calls has ended.
const mostRetiring = 16

// succession has one generation after the other serve.
type succession struct {
	parts   *parts
	version string
	// complete hears that everything is discovered that is waited for.
	complete func()

	// retiring are generations that others have taken over from, each with a place in
	// slots; life ends their patience with their calls.
	retiring sync.WaitGroup
	slots    chan struct{}
	life     context.Context //nolint:containedctx // of what has no caller
	end      context.CancelFunc

	mu    sync.Mutex
	unfit error // of generations that did not end well
}

func newSuccession(p *parts, version string, complete func()) *succession {
	s := &succession{parts: p, version: version, complete: complete, slots: make(chan struct{}, mostRetiring)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// errOvertaken ends what a newer wish, or the end of the sidecar, has overtaken.
var errOvertaken = errors.New("it was overtaken")

// take has a config serve from now on, whole or not at all. It waits until its new
// backends that are not optional have told their tools, which waiting hears, and for as
// long as ctx lasts. Calls that have begun go on as they began.
//
// The error is config.Problems when the config is wrong, or says something else of what
// cannot change; errOvertaken when ctx has ended. Everything is as it was then.
func (s *succession) take(ctx context.Context, cfg *config.Config, waiting func(why string)) error {
	if fixed := needRestart(s.parts.config, cfg); len(fixed) > 0 {
		return fixed
	}
	before := s.parts.generation.Load()
	next, err := newGeneration(cfg, surroundings{logger: s.parts.telemetry.Logger, version: s.version, late: &s.parts.late, before: before})
	if err != nil {
		return err
	}
	readOutput, err := builtIn(result.Outputs{Dedupe: s.parts.dedupe, Book: s.parts.book})
	if err == nil {
		next.serve(readOutput)
		next.discover(s.complete)
		err = s.await(ctx, next, waiting)
	}
	if err != nil {
		return errors.Join(err, s.giveUp(next))
	}
	s.parts.warn(cfg)
	s.parts.warnOf(next.warnings)
	next.takeOver(before)
	s.parts.generation.Store(next)
	s.parts.catalog.Swap(next.tools)
	s.parts.config = cfg
	before.part(next)
	s.told(next, before)
	cfg.Release()
	s.retire(before)
	return nil
}

// await waits until a generation can take over: for its backends, and for room.
func (s *succession) await(ctx context.Context, next *generation, waiting func(why string)) error {
	for h := next.missing(); h != nil; h = next.missing() {
		waiting("backend " + h.name + " has not said yet which tools it has")
		select {
		case <-h.found:
		case <-ctx.Done():
			return errOvertaken
		}
	}
	if len(s.slots) == mostRetiring {
		waiting(fmt.Sprintf("calls still use %d configs before it", mostRetiring))
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return errOvertaken
	}
	if ctx.Err() != nil {
		<-s.slots
		return errOvertaken
	}
	return nil
}

// giveUp ends a generation that has not taken over. What it shares goes on.
func (s *succession) giveUp(next *generation) error {
	ctx, cancel := context.WithTimeout(s.life, closing)
	defer cancel()
	return next.close(ctx)
}

// retire ends a generation when its calls have ended, and gives its room back.
func (s *succession) retire(before *generation) {
	s.retiring.Go(func() {
		defer func() { <-s.slots }()
		s.note(before.retire(s.life))
		// As after a start: what compiling the one and keeping the other took is not
		// needed again soon.
		debug.FreeOSMemory()
	})
}

// note keeps why a generation did not end well; nil is that it did.
func (s *succession) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit = errors.Join(s.unfit, err)
}

// close waits for the generations that are retiring, at most until ctx ends.
func (s *succession) close(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.end)()
	s.retiring.Wait()
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfit
}

// told tells operators that a config has taken over, and what of it is new.
func (s *succession) told(next, before *generation) {
	kept := 0
	for name, h := range next.hosts {
		if was := before.host(name); was != nil && was.premises == h.premises {
			kept++
		}
	}
	s.parts.telemetry.Logger.Info("config taken over", "tools", len(next.tools.Snapshot().Names()),
		"backends", len(next.hosts), "backends_kept", kept, "configs_in_use", len(s.slots)+1)
}

// inForce is the generation that calls get; others may still be held by some.
type inForce struct{ atomic.Pointer[generation] }
