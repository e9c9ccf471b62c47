// Package worker is the worker backend: functions in programs that connect to the
// sidecar, register them and are sent their calls (sidecall.v1.WorkerService).
//
//	Invoke ── roster ── session ── writer ──▶ stream ──▶ function
//	             ▲         ▲                                 │
//	             └─ places ┴────── reader ◀── stream ◀───────┘
//
// A worker has a place for each call that it wants at a time. A call is handed to
// the least busy worker that serves its tool; without a free place it waits. The
// place is the function's: it is free when the worker has said what became of the
// call, also of one for which nobody waits any more.
//
// # What a failure proves
//
//	no worker serves the tool, or none was free in time  not executed: nothing left
//	the call is longer than a worker is sent              not executed
//	the worker was lost while the call was in its queue   it goes to another one
//	the right to send was lost                            not executed
//	the stream ended, or the worker fell silent, after
//	the call was handed over                              ambiguous: gRPC does not
//	                                                      say what the other side read
//	cancelled or late, and no word of the worker          ambiguous
//	the worker says that the function was not run         not executed: it is the
//	                                                      word of who would have
//	                                                      run it
//	the function says that it failed                      its own word, see
//	                                                      backend.Invocation.OwnWord
//
// # Down and up again
//
// A tool stays known when its last worker has gone. Calls of it wait a moment for a
// worker to come, and then fail with nothing sent. A worker that says nothing for
// three intervals is taken for dead, and its stream is ended: it may register again.
// Nothing is handed over twice: what becomes of a call whose worker was lost is for
// the pipeline to decide.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// Config is one worker backend. What is zero has the default.
type Config struct {
	// Name of the backend, for errors and logs. It does not change.
	Name string
	// Prefix that models see before the names of its tools.
	Prefix string
	// MaxWorkers is how many workers there may be at a time; 64.
	MaxWorkers int
	// MaxTools is how many tools all workers have together, those counted whose
	// workers are away; 1000.
	MaxTools int
	// MaxInFlight is the most calls that one worker may have at a time; 256.
	MaxInFlight int
	// Heartbeat is the interval in which a worker says something; 5 s.
	Heartbeat time.Duration
	// MaxMessage is what a worker is told of the largest message that is read of it,
	// in bytes; 4 MiB, which is what gRPC reads where nobody says otherwise. Who reads
	// the stream sees to it. A worker is sent none that is larger either, but what it
	// reads where nobody says otherwise: requests that are short have calls that are
	// longer, by what the sidecar has to say of them.
	MaxMessage int64
	// Late counts the results for which nobody waited any more, of all backends that
	// have it; nil is one of its own.
	Late *atomic.Int64
	// Logger may be nil. It does not change.
	Logger *slog.Logger
}

const (
	defaultMaxWorkers  = 64
	defaultMaxTools    = 1000
	defaultMaxInFlight = 256
	defaultHeartbeat   = 5 * time.Second
	defaultMaxMessage  = 4 << 20
	// missedHeartbeats in a row are a dead worker.
	missedHeartbeats = 3
)

func (cfg Config) withDefaults() Config {
	cfg.MaxWorkers = cmp.Or(cfg.MaxWorkers, defaultMaxWorkers)
	cfg.MaxTools = cmp.Or(cfg.MaxTools, defaultMaxTools)
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, defaultMaxInFlight)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, defaultHeartbeat)
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, defaultMaxMessage)
	cfg.Late = cmp.Or(cfg.Late, new(atomic.Int64))
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}

// Examiner looks at all tools that a backend would have, before it has any of them,
// and says what they become. The error says which cannot be used, and why; for a
// name that is taken it is a *TakenError. It is called by one goroutine at a time.
type Examiner func(tools []tool.Discovered) ([]Admitted, error)

// TakenError is a name that a tool of another backend has.
type TakenError struct{ Name, By string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("the name %q is that of a tool of %s: call it otherwise, or set a prefix for the workers", e.Name, e.By)
}

// Backend is a place that workers come to. It implements backend.Discoverer.
type Backend struct {
	settings atomic.Pointer[Config]
	log      *slog.Logger

	// started is closed when Run has begun: from then on workers register.
	started chan struct{}
	// registering has a place for who changes what tools there are, and tells of it.
	registering chan struct{}
	examine     Examiner
	update      func(tools []tool.Discovered, err error) // nil when Run has ended

	// roster is guarded by mu.
	mu     sync.Mutex
	roster roster
	// parting: nobody registers any more.
	parting bool

	// numbered counts invocations, for their ids.
	numbered atomic.Uint64
	// queued counts the registrations that wait for their turn.
	queued atomic.Int64
	// outlasting counts the registrations that wait for the end of other workers.
	outlasting atomic.Int64
	// late is Config.Late.
	late *atomic.Int64
	// ending ends the streams.
	ending context.Context
	end    context.CancelFunc
	// running counts the streams and their goroutines.
	running backend.Running
}

var _ backend.Discoverer = (*Backend)(nil)

// New returns a backend to which nobody has come yet.
func New(cfg Config) *Backend {
	cfg = cfg.withDefaults()
	b := &Backend{log: cfg.Logger.With("backend", cfg.Name), started: make(chan struct{}), registering: make(chan struct{}, 1), roster: newRoster(), late: cfg.Late}
	b.settings.Store(&cfg)
	b.ending, b.end = context.WithCancel(context.Background())
	return b
}

// cfg is what the config says of the backend now.
func (b *Backend) cfg() *Config { return b.settings.Load() }

// Examine sets who looks at registrations. It is called before Run; without it any
// tool will do.
func (b *Backend) Examine(examine Examiner) { b.examine = examine }

// Run implements backend.Discoverer: until ctx ends, workers may register.
func (b *Backend) Run(ctx context.Context, update func(tools []tool.Discovered, err error)) {
	b.tellTo(update)
	close(b.started)
	select {
	case <-ctx.Done():
	case <-b.ending.Done():
	}
	b.Goodbye()
	b.tellTo(nil)
}

func (b *Backend) tellTo(update func(tools []tool.Discovered, err error)) {
	b.registering <- struct{}{}
	b.update = update
	<-b.registering
}

// Goodbye tells the workers that the sidecar is about to go, and lets no more of them
// in. Their calls go on.
func (b *Backend) Goodbye() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parting {
		return
	}
	b.parting = true
	for s := range b.roster.sessions {
		s.part()
	}
}

// End ends the streams. A call that a worker still has is of unknown outcome.
func (b *Backend) End() {
	b.Goodbye()
	b.end()
}

// Close implements backend.Backend.
func (b *Backend) Close(ctx context.Context) error {
	b.End() // first: nobody enters then, and streams end with their handlers
	return b.running.Ended(ctx, b.cfg().Name)
}

// enter counts a stream that Close waits for; false when no more come in.
func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parting {
		return false
	}
	b.running.Add(1)
	return true
}

// Workers is how many workers there are now.
func (b *Backend) Workers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.roster.sessions)
}

var (
	errParting = status.Error(codes.Unavailable, "the sidecar is draining: open another stream, until there is one that takes it")
	errNobody  = errors.New("no worker is connected")
	errLeft    = fmt.Errorf("%w: %w", errNobody, backend.ErrLeft)
)
