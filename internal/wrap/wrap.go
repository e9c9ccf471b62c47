// Package wrap stands in for an MCP server in a client's config.
//
// It is a relay: what client and server say to each other passes byte for byte, whatever it is
// and whatever revision it is of, but for two things. A tools/call of the client goes through
// a sidecar inside of this process, and from there, as a call of the backend that Relay is, to
// the same server. And the answer to tools/list has read_output more.
//
//	client ──stdin──▶ Relay.fromClient ──▶ server ──▶ process
//	                     │  tools/call        ▲
//	                     ▼                    │ Invoke
//	                  sidecar (app.Inner) ────┘
//	client ◀─stdout── Relay ◀── server.read ◀── process
//
// For that the relay knows the tools, which it lists by itself: after the client's handshake,
// and when they have changed. What it asks has ids that no client can have.
package wrap

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/internal/wrap/observed"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// MaxMessage bounds a message of either side, in bytes.
	MaxMessage = 32 << 20
	// readyWait is how long a message waits for a server that is being started again.
	readyWait = 2 * time.Second
	// handshake is how long a server that was started again may take for it.
	handshake = time.Minute
	// lastAnswers is how long calls may take to end when the server has.
	lastAnswers = 2 * time.Second
	// restartBase and restartMax bound the wait before a server is started again.
	restartBase, restartMax = 250 * time.Millisecond, 30 * time.Second
)

// Executor makes the calls of a client: app.Inner.
type Executor interface {
	// Named is what a tool of a backend is called there.
	Named(backend, tool string) string
	// Effect is that of a tool by what it is called there.
	Effect(name string) tool.Effect
	Execute(ctx context.Context, tenant string, req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse
}

// Options of a Relay.
type Options struct {
	// Name is that of the backend, and Tenant whose the calls are.
	Name, Tenant string
	// Server is the program that is stood in for.
	Server process.Spec
	// In and Out are the client's.
	In  io.Reader
	Out io.Writer
	// Log takes what is to be said beside the protocol.
	Log *slog.Logger
	// Observe, if not nil, has calls pass as everything does, and takes down what they were. Shown
	// is how many characters of a result would be shown.
	Observe *observed.Log
	Shown   int
}

// Relay stands between a client and a server. It is a backend.Discoverer: its tools are those of
// the server.
type Relay struct {
	Options

	out   sync.Mutex // of Out
	calls calls
	tools tools
	// ids are how what it asks begins, and asked how much that was.
	ids   string
	asked atomic.Int64

	mu     sync.Mutex
	now    *server       // nil while there is none
	turned chan struct{} // closed when now is another
	// greeting is the initialize that the client has sent last.
	greeting []byte
	// hello are the messages with which the client has begun, and was answered: the next process is told them too.
	hello opening
	// orphans are requests of processes that have ended that the client has not answered yet.
	orphans  map[string]bool
	nameless sync.Once
}

// opening is how a client has begun.
type opening struct {
	initialize, initialized []byte
	// meta is what a client without a handshake says of itself in each request.
	meta json.RawMessage
}

var _ backend.Discoverer = (*Relay)(nil)

// New returns a relay. Nothing runs yet.
func New(o Options) *Relay {
	r := &Relay{Options: o, ids: "sidecall/" + rand.Text() + "/", turned: make(chan struct{}), orphans: map[string]bool{}}
	r.calls.running = map[string]context.CancelFunc{}
	r.tools.init()
	return r
}

// Serve relays until the client has gone, the server cannot be started, or ctx ends. Calls in
// flight then end, within patience.
func (r *Relay) Serve(ctx context.Context, executor Executor, patience time.Duration) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // calls may end after ctx does
	defer end()
	kept := make(chan error, 1)
	go func() { kept <- r.keep(life) }()
	read := make(chan struct{})
	go func() { // ends with the client, or with this process: what it reads from may not
		defer close(read)
		r.fromClient(life, executor)
	}()
	select {
	case err := <-kept:
		r.calls.end(lastAnswers)
		return err
	case <-read:
	case <-ctx.Done():
	}
	r.calls.end(patience)
	end()
	err := <-kept
	r.calls.end(lastAnswers) // those whose server has been ended are of unknown outcome now
	return err
}

// keep has the server run until ctx ends. The error is that it cannot.
func (r *Relay) keep(ctx context.Context) error {
	for fails := 0; ; fails++ {
		began := time.Now()
		spoke, why := r.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case fails == 0 && !spoke:
			return fmt.Errorf("the server cannot be run: %w", why)
		case time.Since(began) > restartMax:
			fails = 0
		}
		wait := min(restartBase<<min(fails, 10), restartMax)
		r.Log.Warn("the server has ended; it is started again", "error", why, "in", wait)
		r.tools.down(why)
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
	}
}

// run runs the server once. spoke says that it has said something, why that it has ended.
func (r *Relay) run(ctx context.Context) (spoke bool, why error) {
	s, err := r.start()
	if err != nil {
		return false, err
	}
	why = r.live(ctx, s)
	return s.spoke.Load(), why
}

// live is the life of one process: from its handshake, where it is not the first, to its end.
func (r *Relay) live(ctx context.Context, s *server) error {
	defer context.AfterFunc(ctx, s.end)()
	r.mu.Lock()
	hello := r.hello
	r.mu.Unlock()
	if hello.initialize == nil {
		r.turn(s)
	} else {
		go func() {
			if err := s.greet(ctx, hello); err != nil {
				r.Log.Warn("the server does not take its handshake again", "error", err)
				s.end()
				return
			}
			r.turn(s)
			r.tools.wish()
		}()
	}
	s.read()
	<-s.gone
	r.turn(nil)
	r.abandon(s)
	return s.reason
}

// turn says which server there is.
func (r *Relay) turn(s *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = s
	close(r.turned)
	r.turned = make(chan struct{})
}

// server is the one that there is, waited for a little; nil when none comes in time.
func (r *Relay) server(ctx context.Context) *server {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		r.mu.Lock()
		now, turned := r.now, r.turned
		r.mu.Unlock()
		if now != nil && !now.ended() {
			return now
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil
		}
	}
}

// abandon answers what a server that has ended leaves open: the client's requests, but for calls
// of tools, which their call answers, and its own, which nobody waits for any more.
func (r *Relay) abandon(s *server) {
	s.mu.Lock()
	passed, asks := s.passed, s.asks
	s.passed, s.asks = nil, nil
	s.mu.Unlock()
	for id, of := range passed {
		if of.heard != nil {
			of.heard(nil)
		}
		r.refuse(json.RawMessage(id), codeInternal, "the server has ended before it answered")
	}
	r.mu.Lock()
	for id := range asks {
		r.orphans[id] = true
	}
	r.mu.Unlock()
	for id := range asks {
		r.write(note("notifications/cancelled", map[string]any{"requestId": json.RawMessage(id), "reason": "the server has ended"}))
	}
}

// newID is an id for a request of the relay.
func (r *Relay) newID() string { return r.ids + strconv.FormatInt(r.asked.Add(1), 36) }

// write tells the client a message. One that has gone is told nothing.
func (r *Relay) write(message []byte) {
	r.out.Lock()
	defer r.out.Unlock()
	_, _ = r.Out.Write(append(slices.Clip(message), '\n')) // that it has gone its input says
}

// refuse answers a request of the client with an error.
func (r *Relay) refuse(id json.RawMessage, code int, why string) {
	r.write(failed(id, code, why, nil))
}

// Close implements backend.Backend: the process is Serve's.
func (r *Relay) Close(context.Context) error { return nil }
