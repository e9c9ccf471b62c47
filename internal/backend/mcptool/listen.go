package mcptool

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	listenBase = time.Second
	listenMax  = 30 * time.Second
)

// listen answers the SDK's request for the stream of notifications at once; the
// stream connects, and connects again, by itself. The SDK would make the
// handshake wait for it, and would give up the session, with every call in
// flight, after a few ends of a stream that servers and proxies end as they like.
func (w *wire) listen(req *http.Request) *http.Response {
	resp := synthetic(req, http.StatusOK, "text/event-stream", nil)
	resp.ContentLength = -1
	resp.Body = &listener{wire: w, req: req, delay: listenBase}
	return resp
}

// listener is the body of the stream of notifications. It ends with the context
// of its request, which is the session's.
type listener struct {
	wire  *wire
	req   *http.Request
	cur   *events
	last  string // id of the last event, to go on after it
	ever  bool   // a stream has been open
	delay time.Duration
}

// Read implements io.Reader.
func (l *listener) Read(p []byte) (int, error) {
	for {
		if l.cur == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
		n, err := l.cur.Read(p)
		if n > 0 {
			l.delay = listenBase
			return n, nil
		}
		if err == nil {
			continue
		}
		if id := l.cur.lastID; id != "" {
			l.last = id
		}
		_ = l.Close() // never fails
		if err := l.pause(); err != nil {
			return 0, err
		}
	}
}

// Close implements io.Closer.
func (l *listener) Close() error {
	if l.cur != nil {
		_ = l.cur.Close() // the stream is given up
		l.cur = nil
	}
	return nil
}

// open connects. A server that offers no such stream is not asked again.
func (l *listener) open() error {
	for {
		req := l.req.Clone(l.req.Context())
		if l.last != "" {
			req.Header.Set("Last-Event-ID", l.last)
		}
		resp, err := l.wire.base.RoundTrip(req)
		switch {
		case err != nil:
		case success(resp.StatusCode) && mediaType(resp) == "text/event-stream":
			l.cur, l.ever = newEvents(resp.Body, l.wire, jsonrpc.ID{}, nil), true
			return nil
		case resp.StatusCode < 500:
			discard(resp)
			if l.ever && resp.StatusCode == http.StatusNotFound {
				l.wire.checkSession(req, answer{status: resp.StatusCode})
			}
			<-req.Context().Done()
			return context.Cause(req.Context())
		default:
			discard(resp)
		}
		if err := l.pause(); err != nil {
			return err
		}
	}
}

// pause waits longer each time, half of it at random.
func (l *listener) pause() error {
	timer := time.NewTimer(l.delay/2 + rand.N(l.delay/2))
	defer timer.Stop()
	l.delay = min(2*l.delay, listenMax)
	select {
	case <-timer.C:
		return nil
	case <-l.req.Context().Done():
		return context.Cause(l.req.Context())
	}
}

var _ io.ReadCloser = (*listener)(nil)
