package memory

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

// Options are the bounds of a Store; zero values mean the defaults.
type Options struct {
	// MaxRecords bounds the records; beyond it new calls get ErrFull.
	// Default 1,000,000.
	MaxRecords int
	// MaxOutputBytes bounds the kept outputs together; the ones that expire
	// first give way. Default 256 MiB.
	MaxOutputBytes int64
	// MaxConversationBytes bounds the messages that are kept together; beyond it an
	// append gets ErrFull.
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
	kept
}

// kept is what a store keeps.
type kept struct {
	records         shelf[dedupe.Key, dedupe.Stored]
	sheets, effects shelf[dedupe.Sheet, string]
	logs            shelf[logKey, [][]byte]
	outputs         shelf[outputKey, dedupe.Output]
	outputBytes     int64
	transcripts     shelf[conversation.Key, transcript]
	transcriptBytes int64
}

type outputKey struct{ tenant, ref string }

// transcript is a conversation that is kept.
type transcript struct {
	head     []byte
	messages [][]byte
	bytes    int64 // of head and messages
}

// New returns an empty store.
func New(options Options) *Store {
	if options.MaxRecords <= 0 {
		options.MaxRecords = 1_000_000
	}
	if options.MaxOutputBytes <= 0 {
		options.MaxOutputBytes = 256 << 20
	}
	if options.MaxConversationBytes <= 0 {
		options.MaxConversationBytes = 256 << 20
	}
	s := &Store{options: options, born: time.Now(), tenures: map[string]dedupe.Tenure{}}
	s.Machine = dedupe.Machine{Engine: s}
	return s
}

// begin takes the lock for one request, unless the request is over already.
func (s *Store) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return time.Time{}, dedupe.ErrClosed
	}
	// time.Now reads two clocks, and a process may be held up between them: what
	// decides a lease would then differ from what a record tells.
	now = s.born.Add(time.Since(s.born))
	s.sweep(now)
	return now, nil
}

// sweep clears away a few entries of each kind whose time is over.
func (s *Store) sweep(now time.Time) {
	s.records.sweep(now, nil)
	s.sheets.sweep(now, nil)
	s.effects.sweep(now, nil)
	s.logs.sweep(now, nil)
	s.outputs.sweep(now, func(o dedupe.Output) { s.outputBytes -= int64(len(o.Data)) })
	s.transcripts.sweep(now, func(t transcript) { s.transcriptBytes -= t.bytes })
}
