// Package upstream is an HTTP upstream that misbehaves on purpose and counts
// what it really did.
//
// A test scripts a path with steps, one per request: answer, fail, hang, break
// the connection before or after the work is done. Beside that it keeps a
// ledger of executions, which is the truth that everything the sidecar says is
// compared with: how often a call was carried out, whatever its caller was
// told.
//
//	u := upstream.New(ledger)
//	u.Script("/pay", upstream.CloseAfter(), upstream.JSON(`{"paid":true}`))
//	...
//	u.Ledger.Executions("order-7") // must be 1
//
// Without a script a path executes and answers {"key":…,"executions":…}. Paths
// of the form /fault/NAME do what the step NAME does, for programs in other
// languages.
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody bounds the request bodies that are read, in bytes.
const maxBody = 1 << 20

// idempotencyHeader is the header that Upstream.HonourKeys reads.
const idempotencyHeader = "Idempotency-Key"

// Upstream is the handler. Its methods are safe for concurrent use.
type Upstream struct {
	// Ledger is the record of executions.
	Ledger *Ledger

	mu       sync.Mutex
	scripts  map[string][]Step
	requests map[string]int
	honours  map[string]bool
	done     map[string]bool // path and idempotency key of executions

	closed chan struct{}
	once   sync.Once
}

// New returns an upstream that writes to the ledger.
func New(ledger *Ledger) *Upstream {
	return &Upstream{
		Ledger:   ledger,
		scripts:  make(map[string][]Step),
		requests: make(map[string]int),
		honours:  make(map[string]bool),
		done:     make(map[string]bool),
		closed:   make(chan struct{}),
	}
}

// Script sets what the next requests to a path get, one step each; the last
// step is repeated. No steps: the path has no script any more.
func (u *Upstream) Script(path string, steps ...Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scripts[path] = steps
}

// HonourKeys makes a path carry out a request only once per Idempotency-Key, as
// payment services do. Faults happen all the same.
func (u *Upstream) HonourKeys(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.honours[path] = true
}

// Requests is how many requests a path has got, carried out or not.
func (u *Upstream) Requests(path string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests[path]
}

// Close ends every request that hangs or drips.
func (u *Upstream) Close() { u.once.Do(func() { close(u.closed) }) }

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// net/http notices that the client left only after the body is read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	step, ok := u.next(r.URL.Path)
	if !ok {
		http.Error(w, "there is no such fault", http.StatusNotFound)
		return
	}
	x := exchange{Upstream: u, w: w, r: r, key: keyOf(r, body)}
	if step.Executes {
		if err := x.execute(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if step.respond == nil {
		x.answer()
		return
	}
	step.respond(&x)
}

// next takes the step that is due.
func (u *Upstream) next(path string) (Step, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests[path]++
	if steps := u.scripts[path]; len(steps) > 0 {
		if len(steps) > 1 {
			u.scripts[path] = steps[1:]
		}
		return steps[0], true
	}
	if name, fault := strings.CutPrefix(path, "/fault/"); fault {
		step, ok := named[name]
		return step, ok
	}
	return Step{Executes: true}, true
}

// keyOf is what an execution is counted under: the member or parameter "key",
// else the path.
func keyOf(r *http.Request, body []byte) string {
	if key := r.URL.Query().Get("key"); key != "" {
		return key
	}
	var named struct {
		Key string `json:"key"`
	}
	if json.Unmarshal(body, &named) == nil && named.Key != "" {
		return named.Key
	}
	return r.URL.Path
}

// exchange is one request and what is known of it.
type exchange struct {
	*Upstream
	w   http.ResponseWriter
	r   *http.Request
	key string
}

// execute does the work: it writes to the ledger.
func (x *exchange) execute() error {
	x.mu.Lock()
	idempotencyKey := x.r.Header.Get(idempotencyHeader)
	seen := x.r.URL.Path + "\n" + idempotencyKey
	skip := x.honours[x.r.URL.Path] && idempotencyKey != "" && x.done[seen]
	x.done[seen] = true
	x.mu.Unlock()
	if skip {
		return nil
	}
	return x.Ledger.Write(x.key)
}

// answer is the answer of a path without a script.
func (x *exchange) answer() {
	x.w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(struct {
		Key        string `json:"key"`
		Executions int    `json:"executions"`
	}{x.key, x.Ledger.Executions(x.key)})
	if err != nil {
		panic(err) // a string and a number
	}
	_, _ = x.w.Write(text) // a client that left is not our concern
}

// wait returns when d has passed; false when the client or the upstream left.
func (x *exchange) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	case <-x.closed:
		return false
	}
}

// Server is an Upstream on a loopback port.
type Server struct {
	*Upstream
	URL    string
	server *http.Server
	served chan error
}

// Start serves u on a free loopback port, or on addr when it is not empty.
func Start(u *Upstream, addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s := &Server{
		Upstream: u,
		URL:      "http://" + listener.Addr().String(),
		server:   &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second},
		served:   make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Close ends all requests, stops listening and closes the ledger.
func (s *Server) Close() error {
	s.Upstream.Close()
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.Ledger.Close())
}
