package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/backend/process"
)

// resumes is how often the SDK asks for the rest of a result stream that makes
// no progress. Each is a GET: none can start anything.
const resumes = 5

// protocol versions that are asked for. Servers know the handshake of the first
// for years to come; the second is stateless and for servers that know only it.
const (
	settledProtocol = "2025-11-25"
	newestProtocol  = "2026-07-28"
)

// errEnded is the cause of what ends with a session.
var errEnded = errors.New("the session was ended")

// session is one MCP session and what it runs on.
type session struct {
	client *mcp.ClientSession
	conn   *pipeConn // nil over HTTP
	since  time.Time

	// ctx ends when the session must: calls in flight are then cut off.
	ctx    context.Context
	cancel context.CancelFunc

	// changed says that the tool list may have changed, suspect that the
	// server may hang. Both hold one signal and lose more.
	changed chan struct{}
	suspect chan struct{}
	// expired is closed when the server says that it does not know the
	// session any more, lost when the connection has ended.
	expired    chan struct{}
	expireOnce sync.Once
	lost       chan struct{}

	// lastHeard is when a message last arrived, in Unix nanoseconds.
	lastHeard atomic.Int64

	mu       sync.Mutex
	inFlight int
	leaving  bool          // no new calls
	idle     chan struct{} // closed when leaving and nothing is in flight
	progress map[string]func(string)
}

func newSession() *session {
	s := &session{
		changed:  make(chan struct{}, 1),
		suspect:  make(chan struct{}, 1),
		expired:  make(chan struct{}),
		lost:     make(chan struct{}),
		idle:     make(chan struct{}),
		progress: make(map[string]func(string)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.heard()
	return s
}

// open connects, shakes hands and reads the tool list.
func (b *Backend) open(ctx context.Context) (*session, []backend.Discovered, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timing.Connect,
		fmt.Errorf("the server did not answer the handshake within %s", b.timing.Connect))
	defer cancel()
	s := newSession()
	transport := b.transport(s)
	client := mcp.NewClient(&mcp.Implementation{Name: "sidecall", Version: b.cfg.Version}, &mcp.ClientOptions{
		Logger: b.log,
		// Nothing of the client's is offered: no roots, sampling, elicitation.
		Capabilities:           &mcp.ClientCapabilities{},
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { notify(s.changed) },
	})
	version := settledProtocol
	if b.modern {
		version = newestProtocol
	}
	cs, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if p, ok := transport.(*pipes); ok {
		s.conn = p.conn
	}
	if err != nil {
		b.background(func() { s.end() })
		// One that speaks, but not this handshake, gets the other one next time.
		b.modern = !b.modern && refusedHandshake(err)
		return nil, nil, openError(ctx, s, err)
	}
	s.client = cs
	b.background(func() { s.wait(b.timing.Grace) })
	tools, err := b.discover(ctx, s)
	if err != nil {
		b.background(func() { s.end() })
		return nil, nil, openError(ctx, s, fmt.Errorf("listing the tools: %w", err))
	}
	s.since = time.Now()
	return s, tools, nil
}

// refusedHandshake reports whether the server answered the handshake with an
// error of its own. The SDK gives its own errors JSON-RPC codes too, from -32005
// (never sent, as far as it knows) to -32003.
func refusedHandshake(err error) bool {
	var refusal *jsonrpc.Error
	return errors.As(err, &refusal) && (refusal.Code < -32005 || refusal.Code > -32003)
}

// openError says why a session could not be opened, as well as is known.
func openError(ctx context.Context, s *session, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.conn != nil {
		select {
		case <-s.conn.gone:
			return s.conn.reason()
		case <-time.After(lastWords):
		}
	}
	return err
}

// transport is the way to the server for one session.
func (b *Backend) transport(s *session) mcp.Transport {
	if b.http == nil {
		return &pipes{
			spec:  process.Spec{Argv: b.cfg.Command, Dir: b.cfg.Dir, Env: b.cfg.Env},
			grace: b.timing.Grace,
			limit: b.cfg.MaxMessage,
			log:   b.log,
			watch: s,
		}
	}
	w := &wire{
		base:       b.http.Transport,
		headers:    b.cfg.Headers,
		limit:      b.cfg.MaxMessage,
		log:        b.log,
		watch:      s,
		background: b.background,
	}
	if w.base == nil {
		w.base = http.DefaultTransport
	}
	return &mcp.StreamableClientTransport{
		Endpoint:   b.cfg.URL,
		HTTPClient: w.client(),
		MaxRetries: resumes,
		// The wire bounds events, without ending the session for one.
		MaxEventSize: -1,
	}
}

// wait closes lost when the SDK's session has ended by itself or by end.
func (s *session) wait(grace time.Duration) {
	// Its error is the transport's, which conn.reason tells better.
	_ = s.client.Wait()
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close()
		timer := time.NewTimer(2*grace + stdinGrace)
		defer timer.Stop()
		select {
		case <-s.conn.gone:
		case <-timer.C:
		}
	}
	close(s.lost)
}

// end ends the session: calls in flight are cut off, the process is ended. It
// returns when that is done.
func (s *session) end() {
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close() // never fails
		<-s.conn.gone
	}
	if s.client != nil {
		// Errors are those of a connection that is being given up.
		_ = s.client.Close()
		<-s.lost
	}
}

// reason says why a lost session was lost.
func (s *session) reason() error {
	if s.conn == nil {
		return errors.New("the connection to the server was lost")
	}
	select {
	case <-s.conn.gone:
		return s.conn.reason()
	default:
		return errors.New("the server process does not end")
	}
}

// heard implements watcher.
func (s *session) heard() { s.lastHeard.Store(time.Now().UnixNano()) }

func (s *session) silence() time.Duration {
	return time.Since(time.Unix(0, s.lastHeard.Load()))
}

// expire implements watcher.
func (s *session) expire() { s.expireOnce.Do(func() { close(s.expired) }) }

// notify puts one signal into a channel that holds one.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// enter counts a call; false when the session takes no more.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return false
	}
	s.inFlight++
	return true
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.leaving && s.inFlight == 0 {
		close(s.idle)
	}
}

// refuse takes no more calls; idle is closed when the last one has ended.
func (s *session) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return
	}
	s.leaving = true
	if s.inFlight == 0 {
		close(s.idle)
	}
}

func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight > 0
}

// watch has notes of progress with the token told to f until the returned
// function is called.
func (s *session) watch(token string, f func(string)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress[token] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

// progressed implements watcher.
func (s *session) progressed(params json.RawMessage) {
	var p mcp.ProgressNotificationParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, ok := p.ProgressToken.(string)
	if !ok {
		return // ours are strings
	}
	s.mu.Lock()
	f := s.progress[token]
	s.mu.Unlock()
	if f != nil {
		f(progressNote(p))
	}
}

// progressNote is the message of the server, else how far it has come.
func progressNote(p mcp.ProgressNotificationParams) string {
	if p.Message != "" {
		return p.Message[:min(len(p.Message), 1<<10)]
	}
	note := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		note += "/" + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	return note
}

// ping asks for a sign of life. Any answer is one, an error too.
func (s *session) ping(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &capture{method: "ping"}
	err := s.client.Ping(c.in(ctx), nil)
	a, _, _ := c.done()
	switch a.outcome {
	case resulted, refused, tooLarge:
		return nil
	case httpError:
		if a.status < 500 {
			return nil
		}
		return fmt.Errorf("the server answers with HTTP status %d", a.status)
	}
	if a.err != nil {
		return a.err
	}
	return err
}
