package mcptool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// sending watches how far a request gets.
type sending struct{ connected, wrote atomic.Bool }

func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { s.connected.Store(true) },
		WroteHeaders: func() { s.wrote.Store(true) },
	})
}

// nothing reports whether a request that failed provably reached nobody whole.
// When its context ended it may still be on its way to the connection, so that
// only one that never had a connection counts then.
func (s *sending) nothing(ctx context.Context, err error) bool {
	if !s.connected.Load() {
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	return !s.wrote.Load() || backend.Unprocessed(err)
}

// tail is the body of a captured answer, with what ends its request.
type tail struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (t *tail) Close() error {
	defer t.end()
	return t.ReadCloser.Close()
}

// of is a response with the tail as its body.
func (t *tail) of(resp *http.Response) *http.Response {
	t.ReadCloser, resp.Body = resp.Body, t
	return resp
}

// outlasting returns the context for a captured request. It ends with that of the
// call, but a while after one that has its answer: the end of a stream, read
// meanwhile, lets its connection be used again.
func outlasting(call context.Context, c *capture) (context.Context, *tail) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(call))
	leave := context.AfterFunc(call, func() {
		if c.settled() {
			time.AfterFunc(drainGrace, cancel)
			return
		}
		cancel()
	})
	if call.Err() != nil {
		cancel() // now, and not soon: nothing is sent for a call that is over
	}
	return ctx, &tail{end: func() { leave(); cancel() }}
}

func success(status int) bool { return status >= 200 && status < 300 }

func mediaType(resp *http.Response) string {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// discard gives up a response whose body was read as far as wanted. A short
// rest is read, so that the connection can be used again.
func discard(resp *http.Response) {
	// Errors mean only that the connection is closed instead.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}

// synthetic is a response that did not come from the server.
func synthetic(req *http.Request, status int, contentType string, body []byte) *http.Response {
	resp := &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        make(http.Header),
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	return resp
}
