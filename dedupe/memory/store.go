package memory

import (
	"bytes"
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
	options Options
	born    time.Time // anchors the clock

	mu              sync.Mutex
	closed          bool
	records         map[dedupe.Key]record
	tenures         map[string]dedupe.Tenure
	recordQueue     deadlines[dedupe.Key]
	outputs         map[outputKey]output
	outputQueue     deadlines[outputKey]
	outputBytes     int64
	transcriptBytes int64
	sheets          map[sheetKey]sheet
	sheetQueue      deadlines[sheetKey]
	effects         map[effectKey]holders
	effectQueue     deadlines[effectKey]

	transcripts     map[conversation.Key]transcript
	transcriptQueue deadlines[conversation.Key]
}

type record struct {
	dedupe.Record
	expires   time.Time
	retention time.Duration
}

type outputKey struct{ tenant, ref string }

type output struct {
	dedupe.Output
	expires time.Time
}

// sheetKey names what a conversation shares: a tally, or a log.
type sheetKey struct {
	tenant, conversation, name string
	log                        bool
}

// sheet is a tally or a log.
type sheet struct {
	tally   dedupe.Tally
	entries [][]byte
	expires time.Time
}

// effectKey names an effect, of a conversation or, without one, of a whole tenant.
type effectKey struct {
	tenant, conversation string
	whole                bool
	hash                 [32]byte
}

// holders are the calls that hold an effect, newest first.
type holders struct {
	keys    []dedupe.Key
	expires time.Time
}

// transcript is a conversation that is kept.
type transcript struct {
	head     []byte
	messages [][]byte
	bytes    int64 // of head and messages
	expires  time.Time
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
	return &Store{
		options: options,
		born:    time.Now(),
		records: map[dedupe.Key]record{},
		tenures: map[string]dedupe.Tenure{},
		outputs: map[outputKey]output{},
		sheets:  map[sheetKey]sheet{},
		effects: map[effectKey]holders{},

		transcripts: map[conversation.Key]transcript{},
	}
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

// find returns the record of key as of now; Absent once its time is over.
func (s *Store) find(key dedupe.Key, now time.Time) record {
	r, ok := s.records[key]
	if !ok || !now.Before(r.expires) {
		return record{}
	}
	return r
}

func (s *Store) put(key dedupe.Key, next dedupe.Record, retention time.Duration, now time.Time) {
	expires := now.Add(retention)
	if _, known := s.records[key]; !known {
		s.recordQueue.push(expires, key)
	}
	s.records[key] = record{Record: next, expires: expires, retention: retention}
}

func (s *Store) keep(tenant string, kept dedupe.Output, now time.Time) {
	key := outputKey{tenant, kept.Ref}
	kept.Data = bytes.Clone(kept.Data)
	if old, known := s.outputs[key]; known {
		s.outputBytes -= int64(len(old.Data))
	} else {
		s.outputQueue.push(now.Add(kept.TTL), key)
	}
	s.outputs[key] = output{Output: kept, expires: now.Add(kept.TTL)}
	s.outputBytes += int64(len(kept.Data))
	for s.outputBytes > s.options.MaxOutputBytes {
		s.dropOutput(s.outputQueue.pop())
	}
}

func (s *Store) dropOutput(key outputKey) {
	s.outputBytes -= int64(len(s.outputs[key].Data))
	delete(s.outputs, key)
}

// sweep clears away a few entries of each kind whose time is over.
func (s *Store) sweep(now time.Time) {
	s.recordQueue.sweep(now, func(k dedupe.Key) time.Time { return s.records[k].expires }, func(k dedupe.Key) { delete(s.records, k) })
	s.outputQueue.sweep(now, func(k outputKey) time.Time { return s.outputs[k].expires }, s.dropOutput)
	s.sheetQueue.sweep(now, func(k sheetKey) time.Time { return s.sheets[k].expires }, func(k sheetKey) { delete(s.sheets, k) })
	s.effectQueue.sweep(now, func(k effectKey) time.Time { return s.effects[k].expires }, func(k effectKey) { delete(s.effects, k) })
	s.transcriptQueue.sweep(now, func(k conversation.Key) time.Time { return s.transcripts[k].expires }, s.dropTranscript)
}

func (s *Store) dropTranscript(key conversation.Key) {
	s.transcriptBytes -= s.transcripts[key].bytes
	delete(s.transcripts, key)
}
