package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"syscall"
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
	// Hear takes a message, and reports whether it answers a request.
	Hear(message []byte) (answers bool)
	// Giant takes one that is too long to be read, as far as it was.
	Giant(ln lines.Line) (answers bool)
	// Lost takes a request that will have no answer, and what is known of it.
	Lost(id json.RawMessage, request []byte, known Relayed)
	// Schema is that of the arguments of a tool; nil where there is none.
	Schema(ctx context.Context, tool string) json.RawMessage
}

// Remote speaks streamable HTTP for who passes on messages as they are. Each is a request of
// its own, so that one which fails costs no other; what failures prove is what they prove to
// this backend. It is one session, or none where the server has none: it ends when the server
// has forgotten it.
type Remote struct {
	url      string
	wire     *wire
	mask     func([]byte) []byte
	listener Listener

	// sending is held by who sends, so that messages leave in the order in which they came.
	sending chan struct{}
	life    context.Context //nolint:containedctx // the session's, which no call has
	cancel  context.CancelCauseFunc
	under   sync.WaitGroup

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
		url: cfg.URL, mask: cfg.Mask, listener: listener, sending: make(chan struct{}, 1), posts: make(map[string]context.CancelFunc),
		wire: &wire{base: cfg.HTTPClient.Transport, headers: cfg.Headers, limit: cfg.MaxMessage, log: cfg.Logger, inbox: newInbox()},
	}
	r.life, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// Ending is closed when nothing is sent any more.
func (r *Remote) Ending() <-chan struct{} { return r.life.Done() }

// End ends the session, and what is under way.
func (r *Remote) End() { r.cancel(errEnded) }

// Wait returns why the session has ended, when all that was under way has.
func (r *Remote) Wait() error {
	select {
	case <-r.wire.inbox.expired: // by the stream of what the server says by itself
		r.cancel(errExpired)
	case <-r.life.Done():
	}
	if cause := context.Cause(r.life); !errors.Is(cause, errExpired) {
		r.leave()
	}
	r.sending <- struct{}{} // for good
	r.under.Wait()
	return context.Cause(r.life)
}

// leave tells the server that its session is not needed any more.
func (r *Remote) leave() {
	if r.said().session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	resp, err := r.wire.base.RoundTrip(r.request(ctx, http.MethodDelete, nil))
	if err != nil {
		r.wire.log.Debug("the MCP session could not be ended at the server", "error", err)
		return
	}
	discard(resp)
}

// Send sends a message, once those before it have left. It returns when the message has, or
// when nothing of it will; a request that fails is told to the listener, in the place of its
// answer. right, if not nil, is asked for right before the first byte.
func (r *Remote) Send(ctx context.Context, message []byte, right backend.Right) (sent bool, err error) {
	m := r.outgoing(ctx, message)
	select {
	case r.sending <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.life.Done():
		return false, context.Cause(r.life)
	}
	defer func() { <-r.sending }()
	if r.life.Err() != nil {
		return false, context.Cause(r.life)
	}
	if m.of("notifications/cancelled") && m.stateless {
		r.end(m) // which is how its server is told
		return true, nil
	}
	if !m.asks() {
		r.note(ctx, m)
		return true, nil
	}
	left, done := make(chan struct{}), make(chan struct{})
	post, cancel := context.WithCancel(r.life)
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
	defer context.AfterFunc(r.life, cancel)()
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
		r.end(m)
	}
}

// end ends the request that a note cancels: nobody waits for its answer any more.
func (r *Remote) end(m outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.posts[string(m.Params.RequestID)]; cancel != nil {
		cancel()
	}
}

// listen opens the stream of what the server says by itself, and opens it again for as long as
// the session lasts.
func (r *Remote) listen() {
	if r.said().version >= newestProtocol {
		return
	}
	req := r.request(r.life, http.MethodGet, nil)
	r.under.Go(func() {
		_ = r.wire.relay(req, func(body io.ReadCloser) (heard bool, last string) { // it ends with the session
			from := newStream(body, r.wire.limit)
			heard, _ = r.read(from, nil)
			return heard, from.lastID
		})
	})
}

// ask sends a request, and hands on what answers it. left is closed when it has left.
func (r *Remote) ask(ctx context.Context, m outgoing, right backend.Right, left chan<- struct{}) {
	c := &capture{right: right}
	var once sync.Once
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			once.Do(func() { close(left) })
		}
	}})
	req := r.post(traced, &m)
	c.sending(makeID(nil))
	resp, err := r.wire.there(req, func() (io.ReadCloser, error) { return m.body(), nil }, c)
	answered := false
	if err == nil {
		r.wire.inbox.heard()
		answered = r.answered(ctx, req, resp, m, c)
	}
	if !answered {
		known := c.known()
		if r.life.Err() != nil {
			known.err = context.Cause(r.life)
		}
		r.listener.Lost(json.RawMessage(m.ID), m.text, unheard(known))
	}
}

// answered hands on the answer to a request, and reports whether it was one. Why not is the
// capture's.
func (r *Remote) answered(ctx context.Context, req *http.Request, resp *http.Response, m outgoing, c *capture) bool {
	r.begun(resp, m)
	switch media := mediaType(resp); {
	case success(resp.StatusCode) && media == "text/event-stream":
		return r.follow(ctx, resp, m, c)
	case success(resp.StatusCode) && media == "application/json":
		defer discard(resp)
		data, _, err := readFitting(resp.Body, int64(r.wire.limit)+1, nil)
		switch {
		case len(data) > r.wire.limit:
			c.settle(answer{outcome: tooLarge, size: max(int64(len(data)), resp.ContentLength)})
		case err != nil:
			c.settle(answer{outcome: brokenOff, err: err})
		case r.hear(data, &m):
			c.settle(answer{outcome: resulted})
			return true
		default:
			c.settle(answer{outcome: notMCP, status: resp.StatusCode, err: errors.New("the answer is no JSON-RPC response")})
		}
		return false
	}
	defer discard(resp)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBody)) // what there is of it
	if success(resp.StatusCode) {
		c.settle(answer{outcome: notMCP, status: resp.StatusCode, body: body, err: fmt.Errorf("the answer has the content type %q", resp.Header.Get("Content-Type"))})
		return false
	}
	a := answer{outcome: httpError, status: resp.StatusCode, header: resp.Header, body: body, rpc: rpcError(body)}
	a.session = r.known(req, a)
	c.settle(a)
	return false
}

// known says what an error means for the session. One that is forgotten has ended before anybody
// hears of the error, so that what comes next waits for another.
func (r *Remote) known(req *http.Request, a answer) sessionWord {
	word := r.wire.checkSession(req, a)
	select {
	case <-r.wire.inbox.expired:
		r.cancel(errExpired)
	default:
	}
	return word
}

// begun keeps what the answer to the handshake says of the session.
func (r *Remote) begun(resp *http.Response, m outgoing) {
	if id := resp.Header.Get(sessionHeader); id != "" && m.of("initialize") && success(resp.StatusCode) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.session = id
	}
}

// follow reads the stream that answers a request, and asks for the rest of one that breaks off,
// which starts nothing.
func (r *Remote) follow(ctx context.Context, resp *http.Response, m outgoing, c *capture) (answered bool) {
	for {
		from := newStream(resp.Body, r.wire.limit)
		from.lastID = c.after
		_, answered = r.read(from, &m)
		if answered {
			c.settle(answer{outcome: resulted})
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // as far as it goes, for the connection
		}
		_ = resp.Body.Close() // it was read
		if answered {
			return true
		}
		if resp = r.resume(ctx, from, m, c); resp == nil {
			c.settle(answer{outcome: brokenOff, err: errors.Join(errors.New("the stream broke off before its answer"), from.broken())})
			return false
		}
	}
}

// broken is why a stream has ended that should not have.
func (s *stream) broken() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// resume asks for the rest of a stream, resumes times at the most without anything new; nil
// where there is none to be had.
func (r *Remote) resume(ctx context.Context, from *stream, m outgoing, c *capture) *http.Response {
	for from.lastID != "" && ctx.Err() == nil {
		tries := c.resuming(from.lastID)
		if tries > resumes {
			return nil
		}
		pause(ctx, from.wait(tries))
		req := r.request(ctx, http.MethodGet, nil)
		req.Header.Set("Last-Event-ID", from.lastID)
		resp, err := r.wire.base.RoundTrip(req)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil // the process that had the answer is gone
		case err != nil:
		case success(resp.StatusCode) && mediaType(resp) == "text/event-stream":
			return resp
		default:
			discard(resp)
			return nil
		}
	}
	return nil
}

// wait is how long to wait before the rest is asked for: what the server says, within reason.
func (s *stream) wait(tries int) time.Duration {
	if ms, err := strconv.Atoi(s.again); err == nil && ms >= 0 {
		return min(time.Duration(ms)*time.Millisecond, listenMax)
	}
	return min(listenBase<<(tries-1), listenMax)
}

// read hands on the messages of a stream, up to the answer to a request, if it is of one.
func (r *Remote) read(from *stream, of *outgoing) (heard, answered bool) {
	for !answered {
		ev, ok := from.next()
		if !ok {
			return heard, false
		}
		heard = true
		switch message := ev.message(); {
		case ev.giant != nil:
			answered = r.listener.Giant(ev.tooLarge()) && of != nil
		case message != nil:
			answered = r.hear(message, of) && of != nil
		}
	}
	return heard, answered
}

// hear hands on a message, or those of a batch. of is the request that is answered.
func (r *Remote) hear(data []byte, of *outgoing) (answered bool) {
	for _, message := range unbatch(data) {
		text := onOneLine(message)
		if r.mask != nil {
			text = r.mask(text)
		}
		if of != nil && of.of("initialize") {
			r.agreed(text)
		}
		answered = r.listener.Hear(text) || answered
	}
	return answered
}

// agreed keeps the version that the server answers the handshake with.
func (r *Remote) agreed(text []byte) {
	var says struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &says) == nil && says.Result.Version != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.version = says.Result.Version
	}
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
