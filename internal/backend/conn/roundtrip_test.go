package conn

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/wire"
)

// TestWhatIsReadUnaskedIsThrownAway: with net/http itself, over a server that answers
// each request twice. No connection carries a second request, whose answer the
// second one would be; each that was unfit is closed and out of the set, and of a
// response on it not a byte is taken for one.
func TestWhatIsReadUnaskedIsThrownAway(t *testing.T) {
	var requests, carriedMore atomic.Int64
	twice := func(x *wire.Exchange) bool {
		requests.Add(1)
		if x.Nth > 1 {
			carriedMore.Add(1)
		}
		own := "for " + x.URL.Path
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(own), own)
		_, err := io.WriteString(x.Conn, answer+answer)
		return err == nil
	}
	overBoth := map[string]func() (string, *tls.Config){
		"plain": func() (string, *tls.Config) { return wire.HTTP1(t, twice), nil },
		"TLS": func() (string, *tls.Config) {
			url, roots := wire.HTTPS1(t, twice)
			return url, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		},
	}
	for name, serve := range overBoth {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			url, config := serve()
			set := NewSet()
			defer set.Close()
			transport := &http.Transport{DialContext: set.Dialer(new(net.Dialer).DialContext), TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			const calls = 200
			unfit := 0
			for i := range calls {
				path := fmt.Sprintf("/%d", i)
				for {
					got, trip := roundTrip(t, transport, url+path)
					if trip.fate == Unfit {
						unfit++
						if !trip.watched.closed.Load() || set.holds(trip.watched) {
							t.Fatalf("%s: an unfit connection is kept", path)
						}
						continue
					}
					if trip.fate != Underway || got != "for "+path {
						t.Fatalf("%s: %d, %q", path, trip.fate, got)
					}
					break
				}
			}
			if n := requests.Load(); n != calls || carriedMore.Load() != 0 {
				t.Errorf("%d requests for %d calls, %d over a connection that had served", n, calls, carriedMore.Load())
			}
			t.Logf("%d connections were unfit; net/http had closed the others itself", unfit)
		})
	}
}

// travelled is a trip and what became of it.
type travelled struct {
	Trip
	fate Fate
}

func roundTrip(t *testing.T, transport *http.Transport, url string) (text string, trip *travelled) {
	t.Helper()
	trip = &travelled{}
	req, err := http.NewRequestWithContext(trip.Watch(t.Context()), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	trip.fate = trip.Fate(err)
	if resp != nil {
		body, failed := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if trip.fate == Underway && failed != nil {
			t.Fatal(failed)
		}
		text = string(body)
	}
	if trip.fate == Underway && err != nil {
		t.Fatal(err)
	}
	return text, trip
}

func (s *Set) holds(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[c]
	return open
}
