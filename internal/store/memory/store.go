// Package memory is a dedupe.Store that lives in the process and dies with it. It is for tests
// and for trying things out: after a restart it knows of no call, so that a call which ran
// before can run again. Whoever offers it to a user logs Warning at start.
//
// It keeps the rows of package dedupe under one mutex. A few of those that have expired are
// swept at each request, so that no request pays for many; none is seen before that.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// Warning says what is wrong with this store, in one sentence for the log.
const Warning = "the memory store forgets everything when the process ends: a call made before a restart can run again after it"

// Options are the bounds of a Store; zero values mean the defaults.
type Options struct {
	// MaxRecords bounds the records; beyond it new calls get ErrFull. Default 1,000,000.
	MaxRecords int
	// MaxOutputBytes bounds the kept outputs together; the ones that expire
	// first give way. Default 256 MiB.
	MaxOutputBytes int64
	// MaxConversationBytes bounds the messages that are kept together; beyond it an
	// append gets ErrFull. Default 256 MiB.
	MaxConversationBytes int64
}

// Store is a dedupe.Store in memory.
type Store struct {
	dedupe.Machine

	options Options
	born    time.Time // anchors the clock

	mu      sync.Mutex
	closed  bool
	tenures map[string]dedupe.Tenure
	at      rows // of the step that has the lock
	kept
}

var (
	_ dedupe.Store   = (*Store)(nil)
	_ dedupe.Tenures = (*Store)(nil)
)

// kept is what a store keeps.
type kept struct {
	records          shelf[tool.CallID, dedupe.Stored]
	tallies, effects shelf[dedupe.Sheet, string]
	logs             shelf[dedupe.Sheet, [][]byte]
	outputs          shelf[outputKey, dedupe.Output]
	transcripts      shelf[conversation.Key, transcript]
}

type outputKey struct{ tenant, ref string }

// transcript is a conversation that is kept.
type transcript struct {
	head     []byte
	messages [][]byte
	bytes    int64 // of the messages
}

// New returns an empty store.
func New(options Options) *Store {
	options.MaxRecords = cmp.Or(max(options.MaxRecords, 0), 1_000_000)
	options.MaxOutputBytes = cmp.Or(max(options.MaxOutputBytes, 0), 256<<20)
	options.MaxConversationBytes = cmp.Or(max(options.MaxConversationBytes, 0), 256<<20)
	s := &Store{options: options, born: time.Now(), tenures: map[string]dedupe.Tenure{}}
	s.Machine, s.at.Store = dedupe.Machine{Engine: s}, s
	return s
}

// with does a request under the lock, unless it is over already.
func with[T any](ctx context.Context, s *Store, do func(now time.Time) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return none, dedupe.ErrClosed
	}
	// time.Now reads two clocks, and a process may be held up between them: what
	// decides a lease would then differ from what a record tells.
	now := s.born.Add(time.Since(s.born))
	s.records.sweep(now)
	s.tallies.sweep(now)
	s.effects.sweep(now)
	s.logs.sweep(now)
	s.outputs.sweep(now)
	s.transcripts.sweep(now)
	return do(now)
}

// ListUnknown implements dedupe.Store, on one page.
func (s *Store) ListUnknown(ctx context.Context, from string) (dedupe.Page, error) {
	if from != "" {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return with(ctx, s, func(now time.Time) (page dedupe.Page, err error) {
		for key := range s.records.entries {
			stored, _ := s.records.get(key, now)
			if r := stored.Observed(now); r.State == dedupe.Unknown {
				page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: r})
			}
		}
		return page, nil
	})
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	return with(ctx, s, func(now time.Time) (dedupe.Output, error) {
		kept, found := s.outputs.get(outputKey{tenant, ref}, now)
		if !found {
			return kept, dedupe.ErrNoOutput
		}
		kept.TTL = s.outputs.entries[outputKey{tenant, ref}].expires.Sub(now)
		return kept, nil
	})
}

// Ping implements dedupe.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := with(ctx, s, func(now time.Time) (time.Time, error) { return now, nil })
	return err
}

// Close implements dedupe.Store. It forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.kept = true, kept{}
	return nil
}

// Bid implements dedupe.Tenures, for tests: two processes share no memory. It
// forgets no tenure, of which there are as many as instances.
func (s *Store) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
	if err := bid.Validate(); err != nil {
		return before, after, err
	}
	before, err = with(ctx, s, func(now time.Time) (before dedupe.Tenure, err error) {
		before = s.tenures[bid.Instance]
		after = before.Bid(bid, now)
		s.tenures[bid.Instance] = after
		return before, nil
	})
	return before, after, err
}
