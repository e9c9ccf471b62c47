package mcptool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/identity"
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

	*inbox
	// lost is closed when the connection has ended.
	lost chan struct{}
	// taskTools are those that can only be called as tasks, in the revisions with sessions.
	taskTools atomic.Pointer[map[string]bool]

	mu       sync.Mutex
	inFlight int
	leaving  bool          // no new calls
	idle     chan struct{} // closed when leaving and nothing is in flight
}

func newSession() *session {
	s := &session{inbox: newInbox(), lost: make(chan struct{}), idle: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
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

// keyed reports that the server says that it honours the idempotency key of a call.
func (s *session) keyed() bool { return keyed(s.client.InitializeResult()) }

func keyed(said *mcp.InitializeResult) bool {
	if said == nil || said.Capabilities == nil {
		return false
	}
	_, keyed := said.Capabilities.Experimental[identity.Extension]
	return keyed
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

// lasting is a context that ends with the session too.
func (s *session) lasting(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errEnded) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// exchange sends one request, as long as the session lasts, and returns what was seen of it.
func (s *session) exchange(ctx context.Context, c *capture, send func(context.Context) error) (seen, error) {
	lasting, end := s.lasting(ctx)
	defer end()
	err := send(c.in(lasting))
	a := s.done(c)
	if a.outcome == unanswered && ctx.Err() != nil {
		notify(s.suspect)
	}
	return a, err
}

func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight > 0
}

// ping asks for a sign of life. Any answer is one, an error too.
func (s *session) ping(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := new(capture)
	err := s.client.Ping(c.in(ctx), nil)
	a := s.done(c)
	switch {
	case a.outcome == resulted, a.outcome == refused, a.outcome == tooLarge:
		return nil
	case a.outcome == httpError && a.status < 500:
		return nil
	case a.outcome == httpError:
		return fmt.Errorf("the server answers with HTTP status %d", a.status)
	case a.err != nil:
		return a.err
	}
	return err
}
