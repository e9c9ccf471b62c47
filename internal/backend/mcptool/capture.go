package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// capture travels in the context of one request, down through the SDK, and
// brings back what the transport saw.
type capture struct {
	// method is the request's own; a cancellation sent on its behalf carries
	// the same context and is not captured.
	method string
	// whole passes the original answer on to the SDK, which otherwise gets an
	// empty one.
	whole bool
	// room for the answer; nil is without a bound.
	room backend.Room
	// right to send the request, asked right before its first byte; nil is
	// always held.
	right backend.Right

	mu   sync.Mutex
	id   jsonrpc.ID
	sent bool // bytes of the request may have left
	// withheld: the right was gone, nothing left.
	withheld bool
	ans      answer
	// streaming: the answer comes as a stream of events, whose end is read
	// after the answer itself.
	streaming bool
	release   func()
	// The end of a stream may outlive the answer: see linger.
	closed bool
	cancel func()
	timer  *time.Timer
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

// mayLeave asks for the right to send, right before the first byte.
func (c *capture) mayLeave() bool {
	if c.right == nil || c.right.Held() {
		return true
	}
	c.withhold()
	return false
}

// withhold notes that the right to send was gone, and that nothing left.
func (c *capture) withhold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withheld, c.sent = true, false
}

func (c *capture) wasWithheld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.withheld
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

// request is the id of the request; not valid when nothing was sent.
func (c *capture) request() jsonrpc.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// linger has the context of an answered stream cancelled once the stream is
// closed, at the latest after d: its end, read meanwhile, lets the connection be
// used again.
func (c *capture) linger(d time.Duration, cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		cancel()
		return
	}
	c.cancel = cancel
	c.timer = time.AfterFunc(d, cancel)
}

// streamClosed notes that the stream is closed.
func (c *capture) streamClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil && c.timer.Stop() {
		c.cancel()
	}
}

// settleResponse notes a JSON-RPC response and returns what the SDK gets of it.
func (c *capture) settleResponse(r *jsonrpc.Response, size int64) *jsonrpc.Response {
	a := answer{outcome: resulted, result: r.Result, size: size}
	if r.Error != nil {
		a.outcome, a.result = refused, nil
		a.rpc = asRPC(r.Error)
	}
	c.settle(a)
	if c.forSDK(r.Result) {
		return r
	}
	return stub(r.ID)
}

// forSDK reports whether the SDK is given an original answer. It makes much more of a
// large one than it has bytes, and is not asked for it.
func (c *capture) forSDK(result json.RawMessage) bool { return c.whole && len(result) <= largeAnswer }

func asRPC(err error) *jsonrpc.Error {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// errCaptured is what the SDK gets in place of an answer that went to a capture.
// An error, because the SDK reads results at great expense.
var errCaptured = &jsonrpc.Error{Code: -32000, Message: "captured"}

// errWithheld is what the SDK gets of a request that was kept from leaving. With
// the code of its own "rejected by the transport" it takes it for what it is,
// and not for a connection that is broken.
var errWithheld = &jsonrpc.Error{Code: -32005, Message: "the claim on the call ran out before its request left"}

// stub is the answer for the SDK. Nobody looks at it.
func stub(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: errCaptured}
}

// decode reads one JSON-RPC message. It is the SDK's decoder without its buffer
// of 32 KiB per message.
func decode(data []byte) (jsonrpc.Message, error) {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      any             `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *jsonrpc.Error  `json:"error"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.Version != "2.0" {
		return nil, fmt.Errorf("the version of the message is %q", m.Version)
	}
	id, err := jsonrpc.MakeID(m.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case m.Method != nil:
		return &jsonrpc.Request{ID: id, Method: *m.Method, Params: m.Params}, nil
	case !id.IsValid():
		return nil, errors.New("the message has neither a method nor an id")
	}
	response := &jsonrpc.Response{ID: id, Result: m.Result}
	if m.Error != nil {
		response.Error = m.Error
	}
	return response, nil
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
	if jsontext.Value(data).Kind() == jsontext.KindBeginArray {
		messages, _, err := items(data, maxItems)
		if err == nil {
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
	// doubt is told that the server may be gone.
	doubt()
	// progressed is told of the parameters of every note of progress.
	progressed(params json.RawMessage)
	// ask and change are asked whether a request of the server, and a note of a
	// change, may wait for the SDK; answered is told that one no longer does.
	ask() bool
	change() bool
	answered()
}

// wanted reports whether the SDK should see a request or notification of the
// server. Notes of progress are passed on here, so that they come before the
// answer that follows them; the other notifications (log messages, changes of
// prompts and resources) are dropped before they can queue up. Requests are all
// answered, unless there are too many at a time.
func wanted(r *jsonrpc.Request, w watcher) bool {
	if r.IsCall() {
		return w.ask()
	}
	switch r.Method {
	case "notifications/progress":
		w.progressed(r.Params)
		return false
	case "notifications/tools/list_changed":
		return w.change()
	case "notifications/cancelled", "notifications/subscriptions/acknowledged":
		return true
	}
	return false
}
