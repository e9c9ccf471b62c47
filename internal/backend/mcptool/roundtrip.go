package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
	"github.com/sidecall/sidecall/internal/backend/lines"
)

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(orig *http.Request) (*http.Response, error) {
	req := orig.Clone(orig.Context())
	// Without it neither Go's transport nor its client can send a body again.
	req.GetBody = nil
	w.dress(req)
	c := captureOf(req.Context())
	if c != nil && c.name != "" {
		req.Header.Set(nameHeader, headerText(c.name))
	}
	switch req.Method {
	case http.MethodPost:
		id, isResponse := envelope(orig)
		switch {
		case isResponse:
			defer w.inbox.answered()
		case c != nil && id.IsValid():
			w.inbox.await(id, c)
			resp, err := w.there(req, orig.GetBody, c)
			if err != nil {
				return nil, err
			}
			return w.captured(req, resp, id, c)
		case req.Header.Get("Mcp-Method") == methodListen:
			return w.listen(req, orig.GetBody), nil
		}
		return w.plain(req, id.IsValid() && !isResponse)
	case http.MethodGet:
		if c != nil {
			return w.resume(req, c)
		}
		return w.listen(req, nil), nil
	case http.MethodDelete:
		return w.end(req), nil
	default:
		return w.base.RoundTrip(req)
	}
}

// dress sets the headers of the config that a request has not.
func (w *wire) dress(req *http.Request) {
	for name, value := range w.headers {
		if req.Header.Get(name) == "" {
			req.Header.Set(name, value)
		}
	}
}

// envelope reads the id of the message that a request carries, and whether it is an
// answer to the server. The SDK writes the id before all that can be long.
func envelope(req *http.Request) (id jsonrpc.ID, isResponse bool) {
	if req.GetBody == nil {
		return jsonrpc.ID{}, false
	}
	body, err := req.GetBody()
	if err != nil {
		return jsonrpc.ID{}, false
	}
	defer func() { _ = body.Close() }() // bytes in memory
	head := make([]byte, lines.KeepOfGiant)
	n, _ := io.ReadFull(body, head) // as far as it goes
	raw, answers := OfGiant(head[:n], nil)
	return idOf(raw), answers
}

// plain sends a message that nobody captures: the handshake, notifications and
// answers to requests of the server.
func (w *wire) plain(req *http.Request, isCall bool) (*http.Response, error) {
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	w.inbox.heard()
	switch {
	case !isCall && !success(resp.StatusCode):
		// A server that dislikes a notification must not cost the session.
		w.checkSession(req, answer{status: resp.StatusCode})
		discard(resp)
		return synthetic(req, http.StatusAccepted, "", nil), nil
	case !success(resp.StatusCode):
		resp.Body = http.MaxBytesReader(nil, resp.Body, errorBody)
	case mediaType(resp) == "text/event-stream":
		resp.Body = newEvents(resp.Body, w, nil)
	default:
		resp.Body = http.MaxBytesReader(nil, resp.Body, min(int64(w.limit), largeAnswer))
	}
	return resp, nil
}

// captured gives the answer to a request to its capture, and returns what the SDK gets
// of it.
func (w *wire) captured(req *http.Request, resp *http.Response, id jsonrpc.ID, c *capture) (*http.Response, error) {
	w.inbox.heard()
	if success(resp.StatusCode) && mediaType(resp) == "text/event-stream" {
		// The session id was settled by the handshake; another one here would
		// end the SDK's session.
		resp.Header.Del(sessionHeader)
		resp.Body = newEvents(resp.Body, w, c)
		return resp, nil
	}
	defer discard(resp)
	if success(resp.StatusCode) && mediaType(resp) == "application/json" {
		if original := w.readJSON(resp, id, c); original != nil {
			return synthetic(req, http.StatusOK, "application/json", original), nil
		}
	} else {
		misanswered(req, resp, c, w.checkSession)
	}
	// An error of the HTTP client is the cheapest end of a request for the SDK,
	// and one that leaves the session alone.
	return nil, errCaptured
}

// misanswered notes an answer that is no message: an error of HTTP, of which known says what it
// means for the session, or something that is not MCP.
func misanswered(req *http.Request, resp *http.Response, c *capture, known func(*http.Request, answer) sessionWord) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBody)) // what there is of it
	a := answer{outcome: notMCP, status: resp.StatusCode, body: body,
		err: fmt.Errorf("the answer has the content type %q", resp.Header.Get("Content-Type"))}
	if !success(resp.StatusCode) {
		a = answer{outcome: httpError, status: resp.StatusCode, header: resp.Header, body: body, rpc: rpcError(body)}
		a.session = known(req, a)
	}
	c.settle(a)
}

var errUnfit = errors.New("on every open connection there was an answer that nobody had asked for, or its end")

// there sends a captured request and returns its answer. What is not one, and
// whether anything was sent, goes to the capture.
func (w *wire) there(req *http.Request, body func() (io.ReadCloser, error), c *capture) (*http.Response, error) {
	for range conn.MaxUnfit {
		ctx, t := outlasting(req.Context(), c)
		trip, sent := conn.Trip{Right: c.right, Stop: t.end}, new(sending)
		resp, err := w.base.RoundTrip(req.WithContext(trip.Watch(sent.trace(ctx))))
		fate := trip.Fate(err)
		if err == nil && fate == conn.Underway {
			return t.of(resp), nil
		}
		t.end()
		if resp != nil {
			_ = resp.Body.Close() // it is somebody else's
		}
		switch fate {
		case conn.Withheld:
			c.withhold()
			return nil, errWithheld
		case conn.Underway:
			c.failed(err, sent.nothing(req.Context(), err))
			return nil, err
		case conn.Unfit:
		}
		if req.Body, err = body(); err != nil {
			break
		}
	}
	c.failed(errUnfit, true)
	return nil, errUnfit
}

// readJSON reads an answer that is one JSON document, and returns what the SDK gets
// of it; nil for nothing.
func (w *wire) readJSON(resp *http.Response, id jsonrpc.ID, c *capture) []byte {
	data, cut, err := backend.ReadAll(resp.Body, resp.ContentLength, int64(w.limit), c.memory)
	switch {
	case cut:
		c.settle(answer{outcome: tooLarge, size: max(int64(len(data)), resp.ContentLength)})
		return nil
	case err != nil:
		c.settle(answer{outcome: brokenOff, err: err})
		return nil
	}
	for _, m := range unbatch(data) {
		msg, err := decode(m)
		if r, ok := msg.(*jsonrpc.Response); err == nil && ok && r.ID == id {
			if c.settleResponse(r, int64(len(data))) == r {
				return m
			}
			return nil
		}
	}
	c.settle(answer{outcome: notMCP, status: resp.StatusCode, body: data[:min(len(data), errorBody)],
		err: errors.New("the answer is no JSON-RPC response to the request")})
	return nil
}

var errNothingNew = errors.New("it ends again and again without a new event")

// resume asks for the rest of a stream that broke off before its answer, resumes
// times at the most without anything new.
func (w *wire) resume(req *http.Request, c *capture) (*http.Response, error) {
	began, tries := time.Now(), c.resuming(req.Header.Get("Last-Event-ID"))
	if tries > resumes {
		return w.brokenOff(req, c, errNothingNew), nil
	}
	ctx, t := outlasting(req.Context(), c)
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	if err == nil && mayPass(resp.StatusCode) {
		discard(resp)
		err = fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	if err != nil {
		t.end()
	} else {
		resp = t.of(resp)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		// Nobody listens: the process that had the answer is gone, and the
		// caller need not wait for all the tries that the SDK would make.
		notify(w.inbox.suspect)
		return w.brokenOff(req, c, err), nil
	case err != nil && tries == resumes:
		return w.brokenOff(req, c, err), nil
	case err != nil:
		return nil, err // the SDK asks again
	case success(resp.StatusCode) && mediaType(resp) == "text/event-stream":
		resp.Header.Del(sessionHeader)
		c.resumed(began)
		rest := newEvents(resp.Body, w, c)
		rest.dispatch(event{id: req.Header.Get("Last-Event-ID")}) // where it may break off again, before anything new
		resp.Body = rest
		return resp, nil
	default:
		discard(resp)
		return w.brokenOff(req, c, fmt.Errorf("HTTP status %d", resp.StatusCode)), nil
	}
}

// brokenOff settles a call whose stream cannot be resumed: this call is lost,
// the session is not.
func (w *wire) brokenOff(req *http.Request, c *capture, why error) *http.Response {
	c.settle(answer{outcome: brokenOff, err: fmt.Errorf("the stream broke off and could not be resumed: %w", why)})
	event := append(append([]byte("data: "), encode(stub(c.known().id))...), "\n\n"...)
	return synthetic(req, http.StatusOK, "text/event-stream", event)
}

// end ends the session at the server without making the SDK wait for it: it
// waits with a lock held that calls need.
func (w *wire) end(req *http.Request) *http.Response {
	ctx := context.WithoutCancel(req.Context())
	w.background(func() {
		ctx, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		w.bye(req.WithContext(ctx))
	})
	return synthetic(req, http.StatusNoContent, "", nil)
}

// bye tells the server that its session is not needed any more.
func (w *wire) bye(req *http.Request) {
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		w.log.Debug("the MCP session could not be ended at the server", "error", err)
		return
	}
	discard(resp)
}
