package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// outcome says what a transport knows about one request.
type outcome uint8

const (
	// unanswered: no answer was seen.
	unanswered outcome = iota
	// resulted: answered with a result.
	resulted
	// refused: answered with a JSON-RPC error.
	refused
	// tooLarge: answered, with more than is read.
	tooLarge
	// notMCP: an HTTP success that is no JSON-RPC answer to the request.
	notMCP
	// brokenOff: the answer began and did not end.
	brokenOff
	// httpError: an HTTP status other than success.
	httpError
)

// answer is what came back for one request.
type answer struct {
	outcome outcome
	result  json.RawMessage // resulted
	rpc     *jsonrpc.Error  // refused; with httpError when the body has one
	size    int64           // bytes of the message as far as known
	err     error           // brokenOff, and unanswered when sending failed

	// The HTTP answer, for httpError.
	status int
	header http.Header
	body   []byte
	// sessionGone: the status means that the server does not know the session.
	sessionGone bool
}

// capture travels in the context of one request, down through the SDK, and
// brings back what the transport saw.
type capture struct {
	// method is the request's own; a cancellation sent on its behalf carries
	// the same context and is not captured.
	method string
	// whole passes the original answer on to the SDK, which otherwise gets an
	// empty one.
	whole bool

	mu   sync.Mutex
	id   jsonrpc.ID
	sent bool // bytes of the request may have left
	ans  answer
	// streaming: the answer comes as a stream of events, whose end is read
	// after the answer itself.
	streaming bool
	release   func()
}

type captureKey struct{}

func (c *capture) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// captureOf returns the capture for a request of that method, or nil.
func captureOf(ctx context.Context, method string) *capture {
	if c, ok := ctx.Value(captureKey{}).(*capture); ok && c.method == method {
		return c
	}
	return nil
}

// sending notes that bytes may leave from now on. release is called once nobody
// waits for the answer any more.
func (c *capture) sending(id jsonrpc.ID, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	c.sent = true
	c.release = release
}

// failed notes that sending failed; nothing says that provably no complete
// request left.
func (c *capture) failed(err error, nothing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = c.sent && !nothing
	c.ans.err = err
}

// settle notes the answer. The first one counts.
func (c *capture) settle(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ans.outcome == unanswered {
		c.ans = a
	}
}

// requestID is the id that the SDK gave the request.
func (c *capture) requestID() jsonrpc.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

func (c *capture) settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ans.outcome != unanswered
}

func (c *capture) stream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streaming = true
}

// done returns what is known and forgets the request.
func (c *capture) done() (a answer, sent, streaming bool) {
	c.mu.Lock()
	release := c.release
	c.release = nil
	a, sent, streaming = c.ans, c.sent, c.streaming
	c.mu.Unlock()
	if release != nil {
		release()
	}
	return a, sent, streaming
}

// settleResponse notes a JSON-RPC response and returns what the SDK gets of it.
func (c *capture) settleResponse(r *jsonrpc.Response, size int64) *jsonrpc.Response {
	a := answer{outcome: resulted, result: r.Result, size: size}
	if r.Error != nil {
		a.outcome, a.result = refused, nil
		a.rpc = asRPC(r.Error)
	}
	c.settle(a)
	if c.whole {
		return r
	}
	return stub(r.ID)
}

func asRPC(err error) *jsonrpc.Error {
	if rpc, ok := err.(*jsonrpc.Error); ok {
		return rpc
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// stub is an answer that every method of the SDK can read. Nobody looks at it.
func stub(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Result: json.RawMessage(`{"content":[]}`)}
}

// encode renders a message that was made by this package or decoded by the SDK.
func encode(msg jsonrpc.Message) []byte {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		// Only a value that JSON cannot hold could get here, and there is none.
		panic(fmt.Sprintf("mcptool: encoding a decoded message: %v", err))
	}
	return data
}

// unbatch returns the messages of a batch, which protocol version 2025-03-26
// allows; data itself when it is none.
func unbatch(data []byte) []json.RawMessage {
	var messages []json.RawMessage // fresh: decoding writes into what is there
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		if json.Unmarshal(data, &messages) == nil {
			return messages
		}
	}
	return []json.RawMessage{data}
}

// watcher is what the transports tell a session.
type watcher interface {
	// heard is told of every sign of life.
	heard()
	// expire is told that the server does not know the session.
	expire()
	// progressed is told of the parameters of every note of progress.
	progressed(params json.RawMessage)
}

// wanted reports whether the SDK should see a request or notification of the
// server. Notes of progress are passed on here, so that they come before the
// answer that follows them; the other notifications (log messages, changes of
// prompts and resources) are dropped before they can queue up. Requests are all
// answered.
func wanted(r *jsonrpc.Request, w watcher) bool {
	if r.IsCall() {
		return true
	}
	switch r.Method {
	case "notifications/progress":
		w.progressed(r.Params)
		return false
	case "notifications/tools/list_changed", "notifications/cancelled",
		"notifications/subscriptions/acknowledged":
		return true
	}
	return false
}
