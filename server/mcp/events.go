package mcp

import (
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxReplayed bounds what is kept for clients whose streams break off, in bytes, and
	// maxStreams of how many streams.
	maxReplayed = 10 << 20
	maxStreams  = 4096
	// maxAside bounds what is kept of the stream of a session that belongs to no request, in bytes.
	maxAside = 16 << 10
)

// events keep what was sent last, for clients whose streams break off. The library's own store
// forgets no stream as long as its session lasts.
type events struct {
	mu      sync.Mutex
	bytes   int
	streams map[string]map[string]*sent // by session and stream
	// Of *sent that belong to requests: quiet are those on which nothing was sent yet, the oldest
	// first, order the others, what was sent last at the end.
	quiet, order list.List
}

// sent is what was sent on a stream.
type sent struct {
	session, stream string

	in    *list.List // nil of a stream that belongs to no request
	at    *list.Element
	first int // the index of the first that is kept
	data  [][]byte
	bytes int
}

func newEvents() *events { return &events{streams: make(map[string]map[string]*sent)} }

// Open implements sdk.EventStore.
func (e *events) Open(_ context.Context, session, stream string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.streams[session] == nil {
		e.streams[session] = make(map[string]*sent)
	}
	if e.streams[session][stream] != nil {
		return nil
	}
	s := &sent{session: session, stream: stream}
	e.streams[session][stream] = s
	if stream != "" {
		s.in, s.at = &e.quiet, e.quiet.PushBack(s)
	}
	e.fit()
	return nil
}

// Append implements sdk.EventStore. Nothing is kept of a stream that was forgotten.
func (e *events) Append(_ context.Context, session, stream string, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.streams[session][stream]
	if s == nil {
		return nil
	}
	s.data, s.bytes, e.bytes = append(s.data, data), s.bytes+len(data), e.bytes+len(data)
	if s.in != nil && len(data) > 0 { // else the stream only begins
		s.in.Remove(s.at)
		s.in, s.at = &e.order, e.order.PushBack(s)
	}
	for s.in == nil && (s.bytes > maxAside || len(s.data) > maxStreams) {
		gone := len(s.data[0])
		s.data, s.first, s.bytes, e.bytes = slices.Delete(s.data, 0, 1), s.first+1, s.bytes-gone, e.bytes-gone
	}
	e.fit()
	return nil
}

// fit forgets the oldest streams, for whoever holds the lock: of a call that runs its answer is still
// to come.
func (e *events) fit() {
	for e.order.Len() > 0 && (e.bytes > maxReplayed || e.order.Len() > maxStreams) {
		e.drop(e.order.Front())
	}
	for e.quiet.Len() > maxStreams {
		e.drop(e.quiet.Front())
	}
}

func (e *events) drop(at *list.Element) {
	s := at.Value.(*sent) //nolint:forcetypeassert // only Open puts in
	delete(e.streams[s.session], s.stream)
	e.forget(s)
}

func (e *events) forget(s *sent) {
	e.bytes -= s.bytes
	if s.in != nil {
		s.in.Remove(s.at)
	}
}

// After implements sdk.EventStore. Whoever asks for no event in particular gets those that are
// kept, and of a stream that belongs to no request everybody does: nobody is harmed by being told
// of a change twice, and the end of the session would be the end of the calls in it.
func (e *events) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.streams[session][stream]
	if s == nil || s.in != nil && index >= 0 && index+1 < s.first {
		return func(yield func([]byte, error) bool) { yield(nil, sdk.ErrEventsPurged) }
	}
	kept := slices.Clone(s.data[min(max(index+1-s.first, 0), len(s.data)):])
	return func(yield func([]byte, error) bool) {
		for _, data := range kept {
			if !yield(data, nil) {
				return
			}
		}
	}
}

// SessionClosed implements sdk.EventStore.
func (e *events) SessionClosed(_ context.Context, session string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams[session] {
		e.forget(s)
	}
	delete(e.streams, session)
	return nil
}
