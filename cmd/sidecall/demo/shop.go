package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// shop is an upstream that misbehaves on purpose and counts what it really did.
type shop struct {
	server   *http.Server
	listener net.Listener

	mu sync.Mutex
	// requests counts what arrived, effects what was really done, by path.
	requests, effects map[string]int
	// keys holds the answer of every idempotency key that was honoured.
	keys map[string]string
	// charging is closed when a slow charge has had its effect.
	charging chan struct{}
	// release lets slow charges answer.
	release chan struct{}
}

func newShop() (*shop, error) {
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shop{
		listener: listener, requests: map[string]int{}, effects: map[string]int{}, keys: map[string]string{},
		charging: make(chan struct{}), release: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", s.order)
	mux.HandleFunc("GET /throws", s.throws)
	mux.HandleFunc("GET /noisy", s.noisy)
	mux.HandleFunc("POST /refunds", s.refund)
	mux.HandleFunc("POST /charges", s.charge)
	mux.HandleFunc("POST /slow-charges", s.slowCharge)
	mux.HandleFunc("POST /tickets", s.ticket)
	mux.HandleFunc("GET /export", s.export)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		// Serve ends when close is called; there is nobody else to tell.
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

func (s *shop) url() string { return "http://" + s.listener.Addr().String() }

func (s *shop) close(ctx context.Context) error {
	close(s.release)
	return errors.Join(s.server.Shutdown(ctx))
}

// count returns how many requests arrived at a path and how many had an effect.
func (s *shop) count(path string) (requests, effects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path], s.effects[path]
}

func (s *shop) arrived(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.URL.Path]++
	return s.requests[r.URL.Path]
}

func (s *shop) did(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects[r.URL.Path]++
}

// order knows the orders, and says how often have been charged,
// the ones that the scenes pay.
func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	var n int
	if _, err := fmt.Sscanf(r.PathValue("id"), "A-%d", &n); err != nil || n < 1 || n > 99 {
		answer(w, http.StatusNotFound, `{"error":{"message":"no order `+r.PathValue("id")+`"}}`)
		return
	}
	charges := 0
	switch n {
	case 7:
		_, charges = s.count("/charges")
	case 12:
		_, charges = s.count("/slow-charges")
	}
	answer(w, http.StatusOK, fmt.Sprintf(`{"id":%q,"status":"open","charges":%d}`, r.PathValue("id"), charges))
}

// throws is a tool with a bug: a stack trace in an HTML page.
func (s *shop) throws(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusNotImplemented)
	_, _ = io.WriteString(w, "<html><head><title>Server Error</title></head><body><pre>Traceback (most recent call last):\n"+
		"  File \"/srv/app/secret.py\", line 42, in handler\nZeroDivisionError: division by zero</pre></body></html>")
}

// noisy fails twice and then works, as upstreams do.
func (s *shop) noisy(w http.ResponseWriter, r *http.Request) {
	if s.arrived(r) <= 2 {
		answer(w, http.StatusServiceUnavailable, `{"error":"try later"}`)
		return
	}
	answer(w, http.StatusOK, `{"temperature":21}`)
}

// refund honours idempotency keys, and loses its first acknowledgement.
func (s *shop) refund(w http.ResponseWriter, r *http.Request) {
	n := s.arrived(r)
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	reply, seen := s.keys[key]
	if !seen {
		s.effects[r.URL.Path]++
		reply = fmt.Sprintf(`{"refund":"re_%d","status":"refunded"}`, s.effects[r.URL.Path])
		s.keys[key] = reply
	}
	s.mu.Unlock()
	if n == 1 {
		hangUp()
		return
	}
	answer(w, http.StatusOK, reply)
}

// charge has its effect and loses the acknowledgement, always.
func (s *shop) charge(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	s.did(r)
	hangUp()
}

// slowCharge has its effect at once and takes its time to say so.
func (s *shop) slowCharge(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	s.did(r)
	s.mu.Lock()
	select {
	case <-s.charging:
	default:
		close(s.charging)
	}
	s.mu.Unlock()
	select {
	case <-s.release:
	case <-r.Context().Done():
	}
	answer(w, http.StatusOK, `{"status":"charged"}`)
}

func (s *shop) ticket(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, `{"error":"not JSON"}`)
		return
	}
	s.did(r)
	answer(w, http.StatusCreated, `{"ticket":"T-1"}`)
}

// exported is how many orders the export holds: some megabytes of JSON.
const exported = 40_000

func (s *shop) export(w http.ResponseWriter, r *http.Request) {
	s.arrived(r)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"orders":[`)
	for i := range exported {
		comma := ","
		if i == 0 {
			comma = ""
		}
		_, _ = fmt.Fprintf(w, `%s{"id":"A-%d","status":"shipped","note":"left at the door, signed by a neighbour","cents":%d}`, comma, i, i*7%10000)
	}
	_, _ = io.WriteString(w, `]}`)
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:gosec // JSON for the demo's own client
}

// hangUp closes the connection without a word, after the work is done.
func hangUp() {
	panic(http.ErrAbortHandler)
}
