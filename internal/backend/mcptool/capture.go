package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// capture travels in the context of one request, down through the SDK, and
// brings back what the transport saw.
type capture struct {
	// whole passes the original answer on to the SDK, which otherwise gets an
	// empty one.
	whole bool
	// memory for the answer; nil is without a bound.
	memory backend.Memory
	// right to send the request, asked right before its first byte; nil is
	// always held.
	right backend.Right
	// name is what the header of a request over HTTP says that it is about, where the SDK does not
	// know.
	name string

	mu   sync.Mutex
	seen seen
	// after is the event behind which the rest was asked for last, tries how often in a row, polled when, if
	// that was answered with a stream.
	after  string
	tries  int
	polled time.Time
}

// seen is what the transport saw of a request.
type seen struct {
	answer
	id   jsonrpc.ID // that the SDK gave it; not valid when nothing was sent
	sent bool       // bytes of it may have left
	// withheld: the right to send was gone, and nothing left.
	withheld bool
}

type captureKey struct{}

func (c *capture) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// captureOf returns the capture for a request, or nil. The context of a request is
// that of the note that cancels it, too, which has no answer.
func captureOf(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	return c
}

// sending notes that bytes may leave from now on.
func (c *capture) sending(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.id, c.seen.sent = id, true
}

// failed notes that sending failed; nothing says that provably no complete
// request left.
func (c *capture) failed(err error, nothing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.sent = c.seen.sent && !nothing
	c.seen.err = err
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
	c.seen.withheld, c.seen.sent = true, false
}

// settle notes the answer. The first one counts.
func (c *capture) settle(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.outcome == unanswered {
		c.seen.answer = a
	}
}

func (c *capture) settled() bool { return c.known().outcome != unanswered }

// aWhile is how far apart requests for the rest are where the server is only polled: it has nothing to say yet. A
// stream that ends sooner, again and again, goes nowhere.
const aWhile = time.Second

// resuming counts how often the rest is asked for behind the same event.
func (c *capture) resuming(after string) (tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if after != c.after || !c.polled.IsZero() && time.Since(c.polled) >= aWhile {
		c.after, c.tries = after, 0
	}
	c.tries, c.polled = c.tries+1, time.Time{}
	return c.tries
}

// resumed says that the request for the rest, which was made at an instant, was answered with a stream.
func (c *capture) resumed(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polled = at
}

// known is what was seen until now.
func (c *capture) known() seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
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
	if text, ok := m.ID.(string); ok { // ours are numbers, of which some servers make texts
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			id, _ = jsonrpc.MakeID(float64(n)) // of a number
		}
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
