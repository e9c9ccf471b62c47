package wrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

// eraPrefix begins the names in _meta by which a client without a handshake says which revision
// it speaks, and what it can.
const eraPrefix = "io.modelcontextprotocol/"

// fromClient reads what the client says, until it has gone.
func (r *Relay) fromClient(ctx context.Context, executor Executor) {
	in := lines.New(r.In, MaxMessage, pipeBuffer)
	for ctx.Err() == nil {
		ln, err := in.Next()
		switch text := bytes.TrimSpace(ln.Text); {
		case err != nil:
			return
		case ln.Giant:
			id, _ := ofGiant(ln)
			r.refuse(id, codeInvalidRequest, fmt.Sprintf("the message has %d bytes; at most %d are read", ln.Size, MaxMessage))
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
		if s := r.server(ctx); s != nil { // what is wrong is the server's to say
			s.tell(text)
		}
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
	r.mu.Lock()
	orphan := r.orphans[id]
	delete(r.orphans, id)
	r.mu.Unlock()
	s := r.server(ctx)
	if orphan || s == nil {
		return
	}
	s.mu.Lock()
	delete(s.asks, id)
	s.mu.Unlock()
	s.tell(text)
}

// noted passes on a note, but for one that a call is cancelled, which is the relay's.
func (r *Relay) noted(ctx context.Context, text []byte, m message) {
	if m.is(methodCall) && r.Observe == nil {
		r.Log.Warn("a call of a tool without an id is not made: nobody could be answered")
		return
	}
	if m.is(methodCancelled) {
		var of struct {
			ID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &of) // what names nothing cancels nothing
		if r.calls.cancel(string(of.ID)) {
			return
		}
	}
	if s := r.server(ctx); s != nil {
		s.tell(text)
	}
	if m.is(methodInitialized) {
		r.mu.Lock()
		r.hello.initialized = bytes.Clone(text)
		r.mu.Unlock()
		r.tools.wish()
	}
}

// requested passes on a request, but for a call.
func (r *Relay) requested(ctx context.Context, executor Executor, text []byte, m message) {
	if m.is(methodInitialize) {
		r.mu.Lock()
		r.greeting = bytes.Clone(text)
		r.mu.Unlock()
	} else {
		r.heardOf(m.Params)
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

func (r *Relay) pass(ctx context.Context, text []byte, m message) {
	s := r.server(ctx)
	if s == nil {
		r.refuse(json.RawMessage(m.ID), codeInternal, "the server is not running; it is being started again")
		return
	}
	s.pass(text, m.ID, passing{method: *m.Method})
}

// heardOf keeps what a client without a handshake says of itself in a request.
func (r *Relay) heardOf(params jsontext.Value) {
	if !bytes.Contains(params, []byte(eraPrefix)) {
		return
	}
	of, err := readObject(params)
	if err != nil {
		return
	}
	meta, err := readObject(of.get("_meta"))
	if err != nil || meta.get(eraPrefix+"protocolVersion") == nil {
		return
	}
	var kept object
	for _, one := range meta {
		if strings.HasPrefix(one.name, eraPrefix) {
			kept = append(kept, one)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hello.meta = kept.text()
}

// stateless reports that the client speaks a revision without a handshake.
func (r *Relay) stateless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hello.meta != nil && r.hello.initialize == nil
}

// calls are those of the client in flight.
type calls struct {
	mu sync.Mutex
	// running has how each ends, by its JSON-RPC id, until it is answered or cancelled.
	running map[string]context.CancelFunc
	all     sync.WaitGroup
	over    bool
}

// count counts in what ends by itself; false where there is to be no more.
func (c *calls) count() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.all.Add(1)
	}
	return !c.over
}

// begin counts a call in; false where its id is one in flight, or there are to be no more.
func (c *calls) begin(id string, cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.running[id] != nil {
		return false
	}
	c.running[id] = cancel
	c.all.Add(1)
	return true
}

// cancel ends the wait of the client for a call, which is not answered any more: MCP wants that.
// One that has no effect ends with it; an effect that may have begun goes on, and is recorded.
func (c *calls) cancel(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.running[id]
	delete(c.running, id)
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// answer reports whether the client still waits for a call, which is then over.
func (c *calls) answer(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.running[id] != nil
	delete(c.running, id)
	return waits
}

// end waits for the calls in flight, for so long at the most. Then those that have no effect end.
func (c *calls) end(patience time.Duration) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() { c.all.Wait(); close(ended) }() // each call has an end of its own
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.running {
		cancel()
	}
}
