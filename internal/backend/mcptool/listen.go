package mcptool

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	listenBase = time.Second
	listenMax  = 30 * time.Second
)

// methodListen asks for such a stream in the revision without sessions, by a POST.
const methodListen = "subscriptions/listen"

// listen answers the SDK's request for the stream of notifications at once; the
// stream connects, and connects again, by itself. post is the body of a POST. The SDK would make the
// handshake wait for it, and would give up the session, with every call in
// flight, after a few ends of a stream that servers and proxies end as they like.
func (w *wire) listen(req *http.Request, post func() (io.ReadCloser, error)) *http.Response {
	stream, to := io.Pipe()
	w.background(func() {
		_ = to.CloseWithError(w.relay(req, post, func(body io.ReadCloser) (heard bool, last string) { // never fails
			from := newEvents(body, w, nil)
			from.goesOn = post != nil
			n, _ := io.Copy(to, from) // however it ended
			return n > 0, from.lastID
		}))
	})
	resp := synthetic(req, http.StatusOK, "text/event-stream", nil)
	resp.ContentLength = -1
	resp.Body = stream
	return resp
}

// relay has the stream of notifications read until the context of its request ends,
// which is the session's. A server that offers no such stream is not asked again. read
// returns whether anything came, and the id of the last event.
func (w *wire) relay(req *http.Request, post func() (io.ReadCloser, error), read func(body io.ReadCloser) (heard bool, last string)) error {
	ctx := req.Context()
	last, ever := "", false // the id of the last event, and whether a stream has been open
	for delay := listenBase; ctx.Err() == nil; delay = min(2*delay, listenMax) {
		again := req.Clone(ctx)
		if post != nil {
			again.Body, _ = post() // from memory
		} else if last != "" {
			again.Header.Set("Last-Event-ID", last)
		}
		resp, err := w.base.RoundTrip(again)
		switch {
		case err != nil:
		case success(resp.StatusCode) && mediaType(resp) == "text/event-stream":
			began := time.Now()
			heard, upTo := read(resp.Body)
			if heard && time.Since(began) > listenBase {
				delay = listenBase
			}
			_ = resp.Body.Close() // the stream is given up
			last, ever = cmp.Or(upTo, last), true
		case resp.StatusCode < 500:
			discard(resp)
			if ever && resp.StatusCode == http.StatusNotFound {
				w.checkSession(again, answer{status: resp.StatusCode})
			}
			<-ctx.Done()
		default:
			discard(resp)
		}
		pause(ctx, delay/2+rand.N(delay/2))
	}
	return context.Cause(ctx)
}
