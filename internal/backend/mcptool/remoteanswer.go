package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// ask sends a request, and hands on what answers it. left is closed when it has left.
func (r *Remote) ask(ctx context.Context, m outgoing, right backend.Right, left chan<- struct{}) {
	c := &capture{right: right}
	var once sync.Once
	gone := func() { once.Do(func() { close(left) }) }
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			gone()
		}
	}})
	req := r.post(traced, &m)
	c.sending(jsonrpc.ID{})
	resp, err := r.wire.there(req, func() (io.ReadCloser, error) { return m.body(), nil }, c) //nolint:bodyclose // answered closes it
	answered := false
	if err == nil {
		gone() // some servers answer before they have read it all
		answered = r.answered(ctx, req, resp, m, c)
	}
	if !answered {
		known := c.known()
		if r.rest.Err() != nil {
			known.err = context.Cause(r.life)
		}
		r.listener.Lost(ctx, json.RawMessage(m.ID), m.text, unheard(known))
	}
}

// answered hands on the answer to a request, and reports whether it was one. Why not is the
// capture's.
func (r *Remote) answered(ctx context.Context, req *http.Request, resp *http.Response, m outgoing, c *capture) bool {
	r.begun(resp, m)
	media := mediaType(resp)
	if success(resp.StatusCode) && media == "text/event-stream" {
		return r.follow(ctx, resp, m, c)
	}
	defer discard(resp)
	if !success(resp.StatusCode) || media != "application/json" {
		misanswered(req, resp, c, r.known)
		return false
	}
	data, cut, err := backend.ReadAll(resp.Body, resp.ContentLength, int64(r.wire.limit), nil)
	switch {
	case cut:
		c.settle(answer{outcome: tooLarge, size: max(int64(len(data)), resp.ContentLength)})
	case err != nil:
		c.settle(answer{outcome: brokenOff, err: err})
	case r.hear(data, &m):
		c.settle(answer{outcome: resulted})
		return true
	default:
		c.settle(answer{outcome: notMCP, status: resp.StatusCode, err: errors.New("the answer is no JSON-RPC response")})
	}
	return false
}

// known says what an error means for the session. One that is forgotten has ended before anybody
// hears of the error, so that what comes next waits for another.
func (r *Remote) known(req *http.Request, a answer) sessionWord {
	word := r.wire.checkSession(req, a)
	select {
	case <-r.wire.inbox.expired:
		r.cancel(errExpired)
	default:
	}
	return word
}

// begun keeps what the answer to the handshake says of the session.
func (r *Remote) begun(resp *http.Response, m outgoing) {
	if id := resp.Header.Get(sessionHeader); id != "" && m.of("initialize") && success(resp.StatusCode) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.session = id
	}
}

// follow reads the stream that answers a request, and asks for the rest of one that breaks off,
// which starts nothing.
func (r *Remote) follow(ctx context.Context, resp *http.Response, m outgoing, c *capture) (answered bool) {
	for {
		from := newStream(resp.Body, r.wire.limit)
		from.lastID = c.after
		_, answered = r.read(from, &m)
		if answered {
			c.settle(answer{outcome: resulted})
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // as far as it goes, for the connection
		}
		_ = resp.Body.Close() // it was read
		if answered {
			return true
		}
		if resp = r.resume(ctx, from, c); resp == nil {
			c.settle(answer{outcome: brokenOff, err: errors.Join(errors.New("the stream broke off before its answer"), from.broken())})
			return false
		}
	}
}

// broken is why a stream has ended that should not have.
func (s *stream) broken() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// resume asks for the rest of a stream, resumes times at the most without anything new; nil
// where there is none to be had.
func (r *Remote) resume(ctx context.Context, from *stream, c *capture) *http.Response {
	for from.lastID != "" && ctx.Err() == nil {
		began, tries := time.Now(), c.resuming(from.lastID)
		if tries > resumes {
			return nil
		}
		pause(ctx, from.wait(tries))
		req := r.request(ctx, http.MethodGet, nil)
		req.Header.Set("Last-Event-ID", from.lastID)
		resp, err := r.wire.base.RoundTrip(req)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil // the process that had the answer is gone
		case err != nil:
		case success(resp.StatusCode) && mediaType(resp) == "text/event-stream":
			c.resumed(began)
			return resp
		case mayPass(resp.StatusCode):
			discard(resp)
		default:
			discard(resp)
			return nil
		}
	}
	return nil
}

// wait is how long to wait before the rest is asked for: what the server says, within reason.
func (s *stream) wait(tries int) time.Duration {
	if ms, err := strconv.Atoi(s.again); err == nil && ms >= 0 {
		return min(time.Duration(ms)*time.Millisecond, listenMax)
	}
	return min(listenBase<<(tries-1), listenMax)
}

// read hands on the messages of a stream, up to the answer to a request, if it is of one.
func (r *Remote) read(from *stream, of *outgoing) (heard, answered bool) {
	for !answered {
		ev, ok := from.next()
		if !ok {
			return heard, false
		}
		heard = true
		switch message := ev.message(); {
		case ev.giant != nil:
			answered = of.answeredBy(r.listener.Giant(ev.tooLarge()))
		case message != nil:
			answered = r.hear(message, of)
		}
	}
	return heard, answered
}

// hear hands on a message, or those of a batch, and reports whether one answers the request of.
func (r *Remote) hear(data []byte, of *outgoing) (answered bool) {
	for _, message := range unbatch(data) {
		text := onOneLine(message)
		if r.mask != nil {
			text = r.mask(text)
		}
		if of != nil && of.of("initialize") {
			r.agreed(text)
		}
		answered = of.answeredBy(r.listener.Hear(text)) || answered
	}
	return answered
}

// agreed keeps the version that the server answers the handshake with.
func (r *Remote) agreed(text []byte) {
	var says struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &says) == nil && says.Result.Version != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.version = says.Result.Version
	}
}
