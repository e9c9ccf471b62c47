package wrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
)

// fromClient reads what the client says, until it has gone.
func (r *Relay) fromClient(ctx context.Context, executor Executor) {
	in := lines.New(r.In, MaxMessage, 64<<10)
	for ctx.Err() == nil {
		ln, err := in.Next()
		switch text := bytes.TrimSpace(ln.Text); {
		case err != nil:
			return
		case ln.Giant:
			id, _ := mcptool.OfGiant(ln.Text, ln.Tail)
			r.refuse(json.RawMessage(id), codeInvalidRequest, fmt.Sprintf("the message has %d bytes; at most %d are read", ln.Size, MaxMessage))
		case len(text) == 0:
		case text[0] == '[' && r.Observe == nil:
			r.refuse(nil, codeInvalidRequest, "batches are not taken: MCP has none since the revision of 2025-06-18; send each message by itself")
		default:
			r.said(ctx, executor, text)
		}
	}
}

// said takes a message of the client.
func (r *Relay) said(ctx context.Context, executor Executor, text []byte) {
	m, err := read(text)
	switch {
	case r.Observe != nil && (err != nil || m.ID != nil && !identified(m.ID) || m.Method == nil && m.ID == nil):
		s := r.server(ctx) // what is wrong is its to say
		if s == nil {
			return
		}
		if m, _ := readLoose(text); m.Method != nil && identified(m.ID) { // who can be answered if it does not
			s.pass(text, m.ID, passing{method: *m.Method})
			return
		}
		s.tell(text)
	case err != nil:
		code := codeParse
		if jsontext.Value(text).IsValid() {
			code = codeInvalidRequest
		}
		r.refuse(nil, code, "the message cannot be read: "+err.Error())
	case m.ID != nil && !identified(m.ID):
		r.refuse(nil, codeInvalidRequest, "the id of a message is to be a text or a number")
	case m.Method == nil && m.ID == nil:
		r.refuse(nil, codeInvalidRequest, "the message has neither a method nor an id")
	case m.Method == nil:
		r.replied(ctx, text, m)
	case m.ID == nil:
		r.noted(ctx, text, m)
	default:
		r.requested(ctx, executor, text, m)
	}
}

// replied passes on an answer to what the server has asked. What an earlier process has asked is
// nobody's any more.
func (r *Relay) replied(ctx context.Context, text []byte, m message) {
	id := string(m.ID)
	s := r.holder(ctx, func(s *server) bool { return s.asked(id) })
	if s == nil {
		return
	}
	s.mu.Lock()
	own, asked := s.asks[id]
	delete(s.asks, id)
	s.mu.Unlock()
	switch {
	case own != id && asked:
		s.tell(renamed(text, "id", []byte(own)))
	case asked || s.first:
		s.tell(text)
	}
}

// noted passes on a note, but for one that a call is cancelled, which is the relay's.
func (r *Relay) noted(ctx context.Context, text []byte, m message) {
	if m.is(methodCall) && r.Observe == nil {
		r.Log.Warn("a call of a tool without an id is not made: nobody could be answered")
		return
	}
	given := ""
	if m.is(methodCancelled) {
		var of struct {
			ID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &of) // what names nothing cancels nothing
		if r.calls.cancel(string(of.ID)) {
			return
		}
		given = string(of.ID)
	}
	if s := r.holder(ctx, func(s *server) bool { return s.has(given) }); s != nil {
		s.giveUp(given)
		s.tell(text)
	}
	if m.is(methodInitialized) {
		r.opening.note(func(h *hello) { h.initialized = bytes.Clone(text) })
		r.tools.wish()
	}
}

// requested passes on a request, but for a call.
func (r *Relay) requested(ctx context.Context, executor Executor, text []byte, m message) {
	if m.is(methodInitialize) {
		r.opening.note(func(h *hello) { h.asked, h.meta = bytes.Clone(text), nil }) // whatever it has tried before
	} else if meta := eraOf(m.Params); meta != nil {
		r.opening.note(func(h *hello) { h.meta = meta })
	}
	switch {
	case m.is(methodCall) && r.Observe != nil:
		r.observe(ctx, executor, text, m)
		return
	case m.is(methodCall):
		r.call(ctx, executor, text, m)
		return
	}
	r.pass(ctx, text, m)
}
