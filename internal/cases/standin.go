package cases

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody bounds what a stand-in reads of a request.
const maxBody = 64 << 20

// server is a stand-in that listens.
type server struct {
	http     *http.Server
	listener net.Listener
	serving  sync.WaitGroup
	// closing ends requests that hang.
	closing chan struct{}
}

// listen starts a stand-in on a port of its own. Whoever starts one closes it.
func listen(handler func(stop <-chan struct{}) http.Handler) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: listener, closing: make(chan struct{})}
	s.http = &http.Server{Handler: handler(s.closing), ReadHeaderTimeout: time.Minute}
	s.serving.Go(func() { _ = s.http.Serve(listener) }) // it ends with the listener
	return s, nil
}

func (s *server) url() string { return "http://" + s.listener.Addr().String() }

// close ends it with all its connections.
func (s *server) close() error {
	close(s.closing)
	err := s.http.Close()
	s.serving.Wait()
	return err
}

// exchange is a request at a stand-in.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	stop <-chan struct{}
	pace pace
}

// received reads the request whole: only then is it known when its sender leaves.
func received(w http.ResponseWriter, r *http.Request, stop <-chan struct{}, p pace) (*exchange, bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return &exchange{w, r, body, stop, p}, err == nil
}

// fail does what a fault says; false when it says that the plain answer is given.
func (x *exchange) fail(t target, f fault) bool {
	switch f.kind {
	case answers, toolError:
		return false
	case timesOut:
		x.hang()
	case losesAcknowledgment, closesBefore:
		x.cut()
	case malformed:
		x.write(http.StatusOK, "application/json", f.broken())
	case empty:
		x.write(http.StatusOK, "application/json", []byte(`[]`))
	case huge:
		x.write(http.StatusOK, "text/plain", []byte(hugeText(t)))
	default:
		x.status(f)
	}
	return true
}

// broken is what is said to be JSON and is not.
func (f fault) broken() []byte {
	if f.body != nil {
		return []byte(f.body.Text)
	}
	return []byte(`{"ok": tru`)
}

// leastHuge is how much a huge answer has at the least, in characters.
const leastHuge = 256 << 10

// hugeText is a text of which a tool shows less than half.
func hugeText(t target) string {
	const line = "all work and no play makes jack a dull boy\n"
	return strings.Repeat(line, max(leastHuge, 2*t.policy.MaxOutputChars)/len(line)+1)
}

// status answers with the status of a fault, and with what it says beside.
func (x *exchange) status(f fault) {
	if f.retryAfter > 0 {
		x.w.Header().Set("Retry-After", seconds(x.pace.short(f.retryAfter)))
	}
	body := answer{JSON: []byte(`{"error":{"message":"` + http.StatusText(f.status) + `"}}`)}
	if f.body != nil {
		body = *f.body
	}
	body.Status = f.status
	x.answer(body)
}

// answer gives a plain answer.
func (x *exchange) answer(a answer) {
	for name, value := range a.Headers {
		x.w.Header().Set(name, value)
	}
	if a.Text != "" {
		x.write(a.Status, "text/plain; charset=utf-8", []byte(a.Text))
		return
	}
	x.write(a.Status, "application/json", a.JSON)
}

// write answers.
func (x *exchange) write(status int, mediaType string, body []byte) {
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", mediaType)
	}
	x.w.WriteHeader(status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = x.w.Write(body) // who has left sees what it did not get, as with a real upstream
	}
}

// hang waits until the other side leaves, or the stand-in ends.
func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.stop:
	}
	panic(http.ErrAbortHandler) // without an answer
}

// cut closes the connection without an answer.
func (x *exchange) cut() { panic(http.ErrAbortHandler) }

// seconds writes a wait as the header Retry-After has it, with a fraction.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}
