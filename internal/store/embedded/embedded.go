// Package embedded is the default dedupe.Store: one file, no server, and
// durable before anybody hears the answer.
//
// The file is a log of rows (file.go, frame.go), locked by one process. Every request that
// changes something waits in a bounded queue for the committer, a single
// goroutine that applies whatever waits as one transaction, waits for the disk,
// once, and then answers all of them. Nothing is delayed to fill a group: the
// group is what came while the disk was busy with the last one. Requests that
// change nothing (replays, lookups) read the last state themselves.
//
//	caller ─┐                  ┌─ apply each request ─────────┐
//	caller ─┼─ queue ─ group ──┤  move a few of the oldest    ├─ write, sync ─ answer all
//	caller ─┘                  └──────────────────────────────┘
//
// Open reads the whole log. It refuses one that is damaged, for a record that silently
// vanished would be a call made twice. Being the only process, it knows that whoever held a
// claim is dead: calls that must not repeat become Unknown, others are free at once.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Store is a dedupe.Store in one file.
type Store struct {
	dedupe.Machine
	database

	queue chan *operation // nil without a committer
	looks chan struct{}   // has one of each look, also of those that nobody waits for any more
	// open ends, with the cause, when Close begins, or with the life of the database.
	open      context.Context
	shut      context.CancelCauseFunc
	exited    chan struct{} // closed when the committer has ended
	closeOnce func() error
}

var _ dedupe.Store = (*Store)(nil)

// Open opens the store at path and creates it when there is no file. The error
// names the path; it wraps dedupe.ErrCorrupt when the file is damaged, which is
// then left exactly as it is.
func Open(path string, options Options) (*Store, error) {
	s := newStore(options)
	err := untilFree(s.options.LockWait, func() (err error) {
		if err = ensure(path, s.options.Log); err == nil {
			s.file, err = openFile(path, options.MaxBytes)
		}
		return err
	})
	if err != nil {
		return nil, explain(path, err)
	}
	if err = dedupe.Survive(s.load); err == nil { // rows that no store has written may panic
		err = s.resume()
	}
	if err != nil {
		return nil, explain(path, errors.Join(err, s.file.Close()))
	}
	s.queue = make(chan *operation, queueLength)
	go s.commits() // ends in Close
	return s, nil
}

// InMemory opens an empty store that ends with its process, for tests and for trying things out: a
// call made before a restart can run again after it. MaxBytes bounds all that is kept, and is 1 GiB
// unless it is set. There is no disk to wait for: every request is a transaction of its own, which
// its caller makes.
func InMemory(options Options) *Store {
	options.MaxBytes = cmp.Or(max(options.MaxBytes, 0), 1<<30)
	s := newStore(options)
	most := segmentsIn(options.MaxBytes)
	s.file = newFile("memory", &ram{segments: make([]*[segmentSize]byte, most)}, most, "store.memory, which is for tests")
	for s.file.segments < most {
		s.file.add()
	}
	s.clock = newClock(time.Time{})
	close(s.exited) // there is no committer
	return s
}

func newStore(options Options) *Store {
	options.LockWait = cmp.Or(max(options.LockWait, 0), 2*time.Second)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	s := &Store{database: database{options: options, index: newIndex(options.MaxBytes)}, exited: make(chan struct{}), looks: make(chan struct{}, looksAtOnce)}
	s.Engine = s
	s.life, s.end = context.WithCancelCause(context.Background())
	s.open, s.shut = context.WithCancelCause(s.life)
	s.closeOnce = sync.OnceValue(s.stop)
	return s
}

// explain makes one clear sentence of why a store does not open, and what to do.
func explain(path string, err error) error {
	advice := ""
	switch {
	case errors.Is(err, ErrInUse):
		advice = ": stop that, or, when it is a sidecar, connect to it; a second file (store.embedded.path) knows nothing of the calls of the first"
	case errors.Is(err, dedupe.ErrCorrupt):
		advice = "; it is left untouched: restore a copy, or remove it knowing that calls made before can then run again"
	case errors.Is(err, fs.ErrPermission):
		advice = ": this user may not read and write it, or not create it: give that to this user (chown, chmod), or run as its owner"
	}
	return fmt.Errorf("open the store %s: %w%s", path, err, advice)
}

// Do implements dedupe.Engine. It returns when what the step changes is on the disk.
func (s *Store) Do(ctx context.Context, step *dedupe.Step) error {
	if step.Demand == dedupe.Begins && s.queue != nil {
		// What would begin something has mostly begun, or is refused, where it changes
		// nothing: then nobody waits for the disk.
		if err := s.look(ctx, step.Apply); !errors.Is(err, errLook) {
			return err
		}
	}
	return s.do(ctx, step)
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	return read(ctx, s, func(t *txn) dedupe.Output {
		value, expires := t.get(outputRow, keyOf(tenant, ref))
		if len(value) == 0 {
			t.Fail(dedupe.ErrNoOutput)
			return dedupe.Output{}
		}
		return dedupe.Output{Ref: ref, Data: value[1:], Complete: value[0] == 1, TTL: expires.Sub(t.now)}
	})
}

// Ping implements dedupe.Store. A store that is full for new calls cannot serve.
func (s *Store) Ping(ctx context.Context) error {
	if s.queue == nil {
		s.tidy() // there is no committer that does
	}
	if full := s.full.Load(); full != nil {
		return cmp.Or(s.usable(ctx), *full)
	}
	return s.usable(ctx)
}

// Close implements dedupe.Store: what waits is still committed, then the file
// is let go. The error is a *dedupe.FailedError when the disk stands still.
func (s *Store) Close() error { return s.closeOnce() }

func (s *Store) usable(ctx context.Context) error {
	return cmp.Or(ctx.Err(), context.Cause(s.open))
}

// look looks at the last state, all of which is on the disk. Who looks may wait for the disk, who
// commits for who looks, and the next one for that: so a caller may leave it to itself, and must
// not look at what it finds then. What the index says alone, as of a new call, is found at once.
func (s *Store) look(ctx context.Context, f func(dedupe.Rows)) error {
	if s.mu.TryRLock() {
		if err := s.locked(ctx, f, s.queue == nil); !errors.Is(err, errDisk) {
			return err
		}
	}
	select {
	case s.looks <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.open.Done():
		return context.Cause(s.open)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.looks }()
		s.mu.RLock()
		done <- s.locked(ctx, f, true)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the disk did not answer in time: %w", ctx.Err())
	case <-s.open.Done():
		return context.Cause(s.open)
	}
}

// locked looks with mu held, and lets go of it; errDisk where it would have to read and may not.
func (s *Store) locked(ctx context.Context, f func(dedupe.Rows), reads bool) error {
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	t := &txn{database: &s.database, now: s.clock.now(), reads: reads}
	return t.survive(f)
}

func read[T any](ctx context.Context, s *Store, find func(t *txn) T) (T, error) {
	var what T
	return dedupe.AnswerOf(&what, s.look(ctx, func(t dedupe.Rows) { what = find(t.(*txn)) }))
}

// Now implements dedupe.Store.
func (s *Store) Now(context.Context) (time.Time, error) { return s.clock.now(), nil }
