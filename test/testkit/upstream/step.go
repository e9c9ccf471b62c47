package upstream

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Step is what one request gets.
type Step struct {
	// Executes: the work is done before the answer, if there is one.
	Executes bool
	// respond answers; nil for the plain answer.
	respond func(*exchange)
}

// Times repeats a step.
func (s Step) Times(n int) []Step {
	steps := make([]Step, n)
	for i := range steps {
		steps[i] = s
	}
	return steps
}

// After delays the answer, not the work.
func (s Step) After(d time.Duration) Step {
	then := s.respond
	s.respond = func(x *exchange) {
		switch {
		case !x.wait(d):
		case then == nil:
			x.answer()
		default:
			then(x)
		}
	}
	return s
}

// WithHeader adds a header to the answer.
func (s Step) WithHeader(name, value string) Step {
	then := s.respond
	s.respond = func(x *exchange) {
		x.w.Header().Set(name, value)
		if then == nil {
			x.answer()
			return
		}
		then(x)
	}
	return s
}

// Echo executes and tells the key and how often it was executed.
func Echo() Step { return Step{Executes: true} }

// JSON executes and answers 200 with the text.
func JSON(text string) Step {
	return Step{true, func(x *exchange) { x.write(http.StatusOK, "application/json", text) }}
}

// Text executes and answers 200 with text of a media type.
func Text(mediaType, text string) Step {
	return Step{true, func(x *exchange) { x.write(http.StatusOK, mediaType, text) }}
}

// Status does nothing and answers with a status and a JSON error.
func Status(status int) Step {
	return StatusBody(status, fmt.Sprintf(`{"error":{"message":%q}}`, http.StatusText(status)))
}

// StatusBody does nothing and answers with a status and JSON.
func StatusBody(status int, body string) Step {
	return Step{false, func(x *exchange) { x.write(status, "application/json", body) }}
}

// FailAfter executes and then answers with a status all the same.
func FailAfter(status int) Step {
	step := Status(status)
	step.Executes = true
	return step
}

// RateLimited does nothing and answers 429 with Retry-After, in seconds or as a
// date.
func RateLimited(retryAfter string) Step {
	return Status(http.StatusTooManyRequests).WithHeader("Retry-After", retryAfter)
}

// HTML does nothing and answers with a status and a page.
func HTML(status int) Step {
	page := fmt.Sprintf("<!DOCTYPE html><html><head><title>%d %s</title></head><body><h1>nginx</h1>%s</body></html>",
		status, http.StatusText(status), strings.Repeat("<p>lorem ipsum</p>", 100))
	return Step{false, func(x *exchange) { x.write(status, "text/html", page) }}
}

// Redirect does nothing and points elsewhere.
func Redirect(status int, to string) Step {
	return Step{false, func(x *exchange) {
		x.w.Header().Set("Location", to)
		x.w.WriteHeader(status)
	}}
}

// Hang executes and never answers.
func Hang() Step { return Step{true, (*exchange).hang} }

// HangBefore does nothing and never answers.
func HangBefore() Step { return Step{false, (*exchange).hang} }

// ResetBefore resets the connection and does nothing.
func ResetBefore() Step { return Step{false, (*exchange).reset} }

// ResetAfter executes and then resets the connection.
func ResetAfter() Step { return Step{true, (*exchange).reset} }

// CloseBefore closes the connection and does nothing.
func CloseBefore() Step { return Step{false, (*exchange).close} }

// CloseAfter executes and then closes the connection. On a reused connection
// this is what makes HTTP libraries send the request again.
func CloseAfter() Step { return Step{true, (*exchange).close} }

// ShortBody executes and announces more of a body than it sends.
func ShortBody() Step {
	return Step{true, func(x *exchange) {
		x.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"half\":")
	}}
}

// NotHTTP executes and answers with something that is not HTTP.
func NotHTTP() Step {
	return Step{true, func(x *exchange) { x.raw("SSH-2.0-OpenSSH_9.2\r\n") }}
}

// GiantHeader executes and answers with a header of size bytes.
func GiantHeader(size int) Step {
	return JSON(`{}`).WithHeader("X-Giant", strings.Repeat("x", size))
}

// Drip executes and then sends a byte at a time, for ever.
func Drip(every time.Duration) Step {
	return Step{true, func(x *exchange) {
		x.w.Header().Set("Content-Type", "text/plain")
		x.stream([]byte("."), every)
	}}
}

// Endless executes and then sends text as fast as it is read, for ever.
func Endless() Step {
	return Step{true, func(x *exchange) {
		x.w.Header().Set("Content-Type", "text/plain")
		x.stream([]byte(strings.Repeat("all work and no play makes jack a dull boy\n", 1000)), 0)
	}}
}

// HugeJSON executes and answers with a list of n objects.
func HugeJSON(n int) Step {
	return Step{true, func(x *exchange) {
		x.w.Header().Set("Content-Type", "application/json")
		text := []byte(`{"items":[`)
		for i := range n {
			if i > 0 {
				text = append(text, ',')
			}
			text = fmt.Appendf(text, `{"id":%d,"name":"item number %d"}`, i, i)
			if len(text) > 64<<10 {
				if !x.chunk(text) {
					return
				}
				text = text[:0]
			}
		}
		x.chunk(append(text, "]}"...))
	}}
}

// GzipBomb executes and answers with size bytes of zeros, compressed about a
// thousandfold.
func GzipBomb(size int64) Step {
	return Step{true, func(x *exchange) {
		x.w.Header().Set("Content-Type", "text/plain")
		x.w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(x.w)
		_, err := io.CopyN(packed, spaces{}, size)
		if err == nil {
			_ = packed.Close() // a client that left is what this is about
		}
	}}
}

// BadGzip executes and answers with what claims to be gzip and is not.
func BadGzip() Step {
	return Text("text/plain", "not gzip at all").WithHeader("Content-Encoding", "gzip")
}

// InvalidUTF8 executes and answers with text that is not UTF-8.
func InvalidUTF8() Step { return Text("text/plain", "caf\xe9 \xff\xfe au lait") }

// named are the steps that /fault/NAME knows.
var named = map[string]Step{
	"reset-before": ResetBefore(), "reset-after": ResetAfter(),
	"close-before": CloseBefore(), "close-after": CloseAfter(),
	"hang": Hang(), "hang-before": HangBefore(), "drip": Drip(100 * time.Millisecond),
	"endless": Endless(), "short-body": ShortBody(), "not-http": NotHTTP(),
	"html": HTML(http.StatusBadGateway), "huge-json": HugeJSON(100_000), "gzip-bomb": GzipBomb(1 << 30),
	"bad-gzip": BadGzip(), "invalid-utf8": InvalidUTF8(), "giant-header": GiantHeader(1 << 20),
	"rate-limited": RateLimited("1"), "unavailable": Status(http.StatusServiceUnavailable),
	"redirect-307": Redirect(http.StatusTemporaryRedirect, "/redirected"),
	"redirect-308": Redirect(http.StatusPermanentRedirect, "/redirected"),
}

// spaces is an endless reader of blanks.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func (x *exchange) write(status int, mediaType, body string) {
	x.w.Header().Set("Content-Type", mediaType)
	if x.w.Header().Get("Content-Length") == "" {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, body) // a client that left is not our concern
}

// chunk sends a part of the body at once; false when nobody reads it.
func (x *exchange) chunk(text []byte) bool {
	if _, err := x.w.Write(text); err != nil {
		return false
	}
	return http.NewResponseController(x.w).Flush() == nil
}

// stream sends a part of the body again and again, until nobody reads it.
func (x *exchange) stream(text []byte, every time.Duration) {
	for x.chunk(text) {
		if !x.wait(every) {
			return
		}
	}
}

func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.closed:
	}
}

// take takes the connection from the HTTP server; nil over HTTP/2, where the
// stream is reset instead.
func (x *exchange) take() net.Conn {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}

func (x *exchange) close() {
	_ = x.take().Close() // that it fails for the client is the point
}

func (x *exchange) reset() {
	conn := x.take()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it this is a close, which tests would notice
	}
	_ = conn.Close() // that it fails for the client is the point
}

// raw answers without the help of net/http and closes.
func (x *exchange) raw(text string) {
	conn := x.take()
	defer conn.Close() //nolint:errcheck // as above
	_, _ = io.WriteString(conn, text)
}
