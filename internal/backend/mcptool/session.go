package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

	// backlog is what the server asks of us.
	backlog

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

// doubt implements watcher.
func (s *session) doubt() { notify(s.suspect) }

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
