package wrap

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// MaxMessage bounds a message of either side, in bytes.
	MaxMessage = 32 << 20
	// readyWait is how long a message waits for a server that is being started again.
	readyWait = 2 * time.Second
	// handshake is how long a server that was started again may take for it, and firstHandshake how
	// long the first one may: it may have to be fetched before.
	handshake, firstHandshake = time.Minute, 5 * time.Minute
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
	Execute(ctx context.Context, tenant string, req *sidecallv1.ExecuteToolStreamRequest) *sidecallv1.ExecuteToolResponse
}

// Options of a Relay.
type Options struct {
	// Name is that of the backend, and Tenant whose the calls are.
	Name, Tenant string
	// Open begins a life of the server that is stood in for, whose words the listener hears:
	// a mcptool.Process or a mcptool.Remote.
	Open func(mcptool.Listener) (Link, error)
	// In and Out are the client's.
	In  io.Reader
	Out io.Writer
	// Log takes what is to be said beside the protocol.
	Log *slog.Logger
	// Handshake is how long the server may take to answer its client's initialize; firstHandshake
	// for 0.
	Handshake time.Duration
	// Observe, if not nil, has calls pass as everything does, and takes down what they were. Shown
	// is how many characters of a result would be shown.
	Observe *observed.Log
	Shown   int
}

// Relay stands between a client and a server. It is a backend.Discoverer: its tools are those of
// the server.
type Relay struct {
	Options

	out     sync.Mutex // of Out
	calls   calls
	tools   tools
	ids     ids
	opening opening
	lives   atomic.Int64 // how many servers there were

	turns
	nameless sync.Once
}

// ids are those of what the relay asks: how they begin, and how many there were.
type ids struct {
	prefix string
	asked  atomic.Int64
}

func (i *ids) next() string { return i.prefix + strconv.FormatInt(i.asked.Add(1), 36) }

// own tells them from others.
func (i *ids) own(id jsontext.Value) (string, bool) {
	var text string
	if id.Kind() != '"' || json.Unmarshal(id, &text) != nil {
		return "", false
	}
	return text, strings.HasPrefix(text, i.prefix)
}

// drain has what a server that has ended leaves end.
func (r *Relay) drain(s *server) {
	s.Drain()
	close(s.silent)
	r.abandon(s)
	r.drained(s)
}

// abandon answers what a server that has ended leaves open: the client's requests, but for calls
// of tools, which their call answers, and its own, which nobody waits for any more.
func (r *Relay) abandon(s *server) {
	s.mu.Lock()
	passed, asks := s.passed, s.asks
	s.passed, s.asks = nil, nil
	s.mu.Unlock()
	for id, of := range passed {
		of.ended(nil)
		r.refuse(json.RawMessage(id), codeInternal, "the server has ended before it answered")
	}
	for id := range asks {
		r.write(note("notifications/cancelled", map[string]any{"requestId": json.RawMessage(id), "reason": "the server has ended"}))
	}
}

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

// pass passes a request of the client on. Its end waits for the answer, unless it asks for what lasts
// as long as the client.
func (r *Relay) pass(ctx context.Context, text []byte, m message) {
	s := r.server(ctx)
	if s == nil {
		r.refuse(json.RawMessage(m.ID), codeInternal, "the server is not running; it is being started again")
		return
	}
	of := passing{method: *m.Method}
	if of.method != methodListen && r.calls.Enter() {
		of.heard = func(*mcptool.Relayed) { r.calls.Done() }
	}
	s.pass(text, m.ID, of)
}
