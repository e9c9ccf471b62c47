package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/config"
)

// Source is where the config of a sidecar came from, and where it can be read again. It
// is asked by one goroutine.
type Source interface {
	// Load reads the config. The error is of type config.Problems when it is wrong.
	Load() (*config.Config, error)
	// Changed reports that Load would read something else than it last has. It is
	// asked often, and costs little.
	Changed() bool
}

// lookEvery is how often a Source is asked whether there is something new.
const lookEvery = time.Second

// follower takes over what its source says, whenever that is something else or
// somebody wishes it. One config is on its way at a time, the last one: what an earlier
// one waits for nobody needs any more.
type follower struct {
	succession *succession
	source     Source
	wishes     chan struct{}
	outcome    outcome

	life context.Context //nolint:containedctx // of what has no caller
	end  context.CancelFunc
	done chan struct{} // closed when it has ended
}

// newFollower returns a follower that runs when run is called, until end is.
func newFollower(s *succession, source Source) *follower {
	f := &follower{succession: s, source: source, wishes: make(chan struct{}, 1), done: make(chan struct{})}
	f.life, f.end = context.WithCancel(s.life)
	return f
}

// wish asks for the config to be read now.
func (f *follower) wish() {
	select {
	case f.wishes <- struct{}{}:
	default: // there is a wish already that nobody has heard yet
	}
}

// run follows the source. A config that is on its way when it ends takes over no more.
func (f *follower) run() {
	defer close(f.done)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	overtake := func() {}
	for {
		select {
		case <-f.life.Done():
			overtake()
			return
		case <-f.wishes:
		case <-look.C:
			if !f.source.Changed() {
				continue
			}
		}
		overtake()
		overtake = f.begin()
	}
}

// begin reads the config and has it take over, unless it is overtaken, which ends
// before overtake returns.
func (f *follower) begin() (overtake func()) {
	cfg, err := f.source.Load()
	if err != nil {
		f.refused(nil, err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(f.life)
	done := make(chan struct{})
	go func() {
		defer close(done)
		switch err := f.succession.take(ctx, cfg, f.outcome.waits); {
		case err == nil:
			f.outcome.took()
		case !errors.Is(err, errOvertaken):
			f.refused(cfg, maskError(cfg, err))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// refused tells operators that a config was not taken over, and why; it is nil when what was
// read is none.
func (f *follower) refused(cfg *config.Config, err error) {
	problems, wrong := errors.AsType[config.Problems](err)
	if !wrong {
		problems = config.Problems{{Message: err.Error()}}
	}
	logger := f.succession.parts.telemetry.Logger
	for i, problem := range problems {
		if i == config.MaxProblems {
			logger.Error("config refused", "problem", fmt.Sprintf("and %d more: sidecall check lists them", len(problems)-i))
			break
		}
		logger.Error("config refused", "problem", problem.Error())
	}
	logger.Warn("the config before it stays in force", "problems", len(problems))
	f.outcome.refused(cfg, problems)
}

// wait waits for the end of run, at most until ctx ends.
func (f *follower) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return errors.New("a config is still being read")
	}
}

// outcome is what became of the last wish.
type outcome struct {
	mu  sync.Mutex
	now Following
}

// Following is what became of the last config that a sidecar has read from its Source.
type Following struct {
	// Refused is why it is not in force; empty when it is, or may still be. Config is what
	// was refused, nil when that was none.
	Refused string
	Config  *config.Config
	// Waiting is what it waits for.
	Waiting string

	// taken and refusals are how many configs were taken over, and refused.
	taken, refusals int64
}

func (o *outcome) following() Following {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

func (o *outcome) waits(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Waiting = what
}

func (o *outcome) took() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = Following{taken: o.now.taken + 1, refusals: o.now.refusals}
}

func (o *outcome) refused(cfg *config.Config, problems config.Problems) {
	o.mu.Lock()
	defer o.mu.Unlock()
	why := problems[0].Error()
	if more := len(problems) - 1; more > 0 {
		why += fmt.Sprintf(" (and %d more: see the log)", more)
	}
	o.now = Following{Refused: why, Config: cfg, taken: o.now.taken, refusals: o.now.refusals + 1}
}
