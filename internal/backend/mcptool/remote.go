package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/lines"
)

const (
	// noteTime bounds what waits for the server to take a note, or an answer to what it asked.
	noteTime = 5 * time.Second
	// leaveTime bounds the DELETE that ends a session whose client has gone.
	leaveTime = time.Second
)

// Listener hears what a server says.
type Listener interface {
	// Hear takes a message, and returns the id of the request that it answers, as it stands there; nil where
	// it answers none.
	Hear(message []byte) (answers json.RawMessage)
	// Giant takes one that is too long to be read, as far as it was.
	Giant(ln lines.Line) (answers json.RawMessage)
	// Lost takes a request that will have no answer, and what is known of it. ctx ends when nobody waits
	// for one.
	Lost(ctx context.Context, id json.RawMessage, request []byte, known Relayed)
	// Schema is that of the arguments of a tool; nil where there is none.
	Schema(ctx context.Context, tool string) json.RawMessage
}

// Remote speaks streamable HTTP for who passes on messages as they are. Each is a request of
// its own, so that one which fails costs no other; what failures prove is what they prove to
// this backend. It is one session, or none where the server has none: it ends when the server
// has forgotten it, which nothing more is asked in then; what was asked before may still be answered.
type Remote struct {
	url      string
	wire     *wire
	mask     func([]byte) []byte
	listener Listener

	// order keeps a note behind the requests before it, which have left then, and before those behind
	// it, which leave when it was taken. Requests do not wait for each other.
	order  sync.RWMutex
	life   context.Context //nolint:containedctx // the session's, which no call has
	cancel context.CancelCauseFunc
	// rest is the life of what is under way, which outlasts a session that the server has forgotten.
	rest  context.Context //nolint:containedctx // as life
	end   context.CancelFunc
	under sync.WaitGroup
	// unasked is the stream of what the server says by itself, also of what is under way.
	unasked sync.WaitGroup

	mu sync.Mutex
	// session and version are what the server has answered the handshake, or the version that
	// the client says in each request.
	session, version string
	// posts has how each request ends, by its id.
	posts map[string]context.CancelFunc
}

// RemoteConfig is what a Remote needs: of a Config what has the same name.
type RemoteConfig struct {
	URL        string
	Headers    map[string]string
	HTTPClient *http.Client
	MaxMessage int
	Logger     *slog.Logger
	// Mask takes what the server must not echo out of a message; nil is nothing.
	Mask func([]byte) []byte
}

// Check says what is wrong with a config.
func (cfg RemoteConfig) Check() error {
	return Config{URL: cfg.URL, Headers: cfg.Headers, HTTPClient: cfg.HTTPClient}.validate()
}

// Open begins a session. Nothing is sent yet.
func (cfg RemoteConfig) Open(listener Listener) *Remote {
	r := &Remote{
		url: cfg.URL, mask: cfg.Mask, listener: listener, posts: make(map[string]context.CancelFunc),
		wire: &wire{base: cfg.HTTPClient.Transport, headers: cfg.Headers, limit: cfg.MaxMessage, log: cfg.Logger, inbox: newInbox()},
	}
	r.rest, r.end = context.WithCancel(context.Background())
	r.life, r.cancel = context.WithCancelCause(r.rest)
	return r
}

// Ending is closed when nothing is sent any more.
func (r *Remote) Ending() <-chan struct{} { return r.life.Done() }

// End ends the session, and what is under way.
func (r *Remote) End() {
	r.cancel(errEnded)
	r.end()
}

// Wait returns why the session has ended.
func (r *Remote) Wait() error {
	select {
	case <-r.wire.inbox.expired: // by the stream of what the server says by itself
		r.cancel(errExpired)
	case <-r.life.Done():
	}
	return context.Cause(r.life)
}

// Drain returns when all that was under way at the end has ended, and nothing more is heard. Then the
// server is told that the session is not needed any more, which may be one that only others do not know.
func (r *Remote) Drain() {
	r.order.Lock()   // who has begun to send before the end has begun what is waited for
	r.order.Unlock() //nolint:staticcheck // nothing is to be done meanwhile
	r.under.Wait()
	r.end()
	r.unasked.Wait()
	r.leave()
}

// leave tells the server that its session is not needed any more.
func (r *Remote) leave() {
	if r.said().session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	r.wire.bye(r.request(ctx, http.MethodDelete, nil))
}

// Send sends a message. It returns when the message has left, or when nothing of it will; a request
// that fails is told to the listener, in the place of its answer. right, if not nil, is asked for
// right before the first byte.
func (r *Remote) Send(ctx context.Context, message []byte, right backend.Right) (sent bool, err error) {
	m := r.outgoing(ctx, message)
	if m.asks() {
		r.order.RLock()
		defer r.order.RUnlock()
	} else {
		r.order.Lock()
		defer r.order.Unlock()
	}
	switch {
	case r.rest.Err() != nil, m.asks() && r.life.Err() != nil:
		return false, context.Cause(r.life)
	case ctx.Err() != nil:
		return false, ctx.Err()
	}
	if m.of("notifications/cancelled") && m.stateless {
		r.giveUp(m) // which is how its server is told
		return true, nil
	}
	if !m.asks() {
		r.note(ctx, m)
		return true, nil
	}
	left, done := make(chan struct{}), make(chan struct{})
	post, cancel := context.WithCancel(r.rest)
	r.mu.Lock()
	r.posts[string(m.ID)] = cancel
	r.mu.Unlock()
	r.under.Go(func() {
		defer close(done)
		defer cancel()
		r.ask(post, m, right, left)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.posts, string(m.ID))
	})
	select {
	case <-left:
	case <-done: // the listener knows
	case <-ctx.Done():
		select {
		case <-left: // in the same moment
		default:
			cancel()
			<-done
		}
	}
	return true, nil
}

// outgoing reads a message. What its headers say of a tool is asked for before its turn comes.
func (r *Remote) outgoing(ctx context.Context, message []byte) outgoing {
	m := readOutgoing(message)
	r.mu.Lock()
	if m.of("initialize") {
		r.version = "" // it is agreed on anew
	}
	r.version = cmp.Or(m.Params.Meta.Version, r.version)
	m.stateless = r.version >= newestProtocol
	r.mu.Unlock()
	if m.stateless && m.of(methodCall) {
		m.schema = r.listener.Schema(ctx, m.Params.Name)
	}
	return m
}

// note sends what has no answer. A server that dislikes it does not lose its session for it.
func (r *Remote) note(ctx context.Context, m outgoing) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	defer context.AfterFunc(r.rest, cancel)()
	req := r.post(ctx, &m)
	resp, err := r.wire.base.RoundTrip(req)
	switch {
	case err != nil:
		r.wire.log.Warn("the server did not take a message", "method", m.Method, "error", withoutURL(err))
	case !success(resp.StatusCode):
		body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBody)) // what there is of it
		r.known(req, answer{status: resp.StatusCode, body: body, rpc: rpcError(body)})
		r.wire.log.Debug("the server refused a message", "method", m.Method, "status", resp.StatusCode)
		fallthrough
	default:
		discard(resp)
	}
	switch {
	case m.of("notifications/initialized"):
		r.listen()
	case m.of("notifications/cancelled"):
		r.giveUp(m)
	}
}

// giveUp ends the request that a note cancels: nobody waits for its answer any more.
func (r *Remote) giveUp(m outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.posts[string(m.Params.RequestID)]; cancel != nil {
		cancel()
	}
}

// listen opens the stream of what the server says by itself, and opens it again for as long as
// the session lasts, or something is under way that it may be said of.
func (r *Remote) listen() {
	if r.said().version >= newestProtocol {
		return
	}
	req := r.request(r.rest, http.MethodGet, nil)
	r.unasked.Go(func() {
		_ = r.wire.relay(req, nil, func(body io.ReadCloser) (heard bool, last string) { // it ends with r.rest
			from := newStream(body, r.wire.limit)
			heard, _ = r.read(from, nil)
			return heard, from.lastID
		})
	})
}

// said is what is known of the session.
func (r *Remote) said() (of struct{ session, version string }) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.session, of.version = r.session, r.version
	return of
}

// request is a request in the session.
func (r *Remote) request(ctx context.Context, method string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, r.url, body)
	if err != nil {
		panic(err) // the URL was parsed before
	}
	req.GetBody = nil // without it nobody can send a body again
	r.wire.dress(req)
	of := r.said()
	if of.session != "" {
		req.Header.Set(sessionHeader, of.session)
	}
	if of.version != "" {
		req.Header.Set("Mcp-Protocol-Version", of.version)
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	return req
}

// post is the request that carries a message.
func (r *Remote) post(ctx context.Context, m *outgoing) *http.Request {
	req := r.request(ctx, http.MethodPost, m.body())
	req.ContentLength = int64(len(m.text))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if m.stateless {
		m.describe(req.Header)
	}
	return req
}
