package mcptool

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
	// errorBody is how much of an HTTP error's body is read.
	errorBody = 64 << 10
	// drainGrace is how long the end of an answered stream may take, so that
	// its connection can be used again.
	drainGrace = time.Second
	// endTimeout bounds the DELETE that ends a session.
	endTimeout = 3 * time.Second
)

// wire is the http.RoundTripper below the SDK's streamable HTTP transport, one
// per session. It makes every captured request an affair of its own: whatever
// comes back for it, an error page or a stream that never ends, goes to its
// capture, while the SDK, which would give up the session and with it all calls
// in flight, sees a plain answer.
type wire struct {
	base    http.RoundTripper
	headers map[string]string
	limit   int
	log     *slog.Logger
	inbox   *inbox
	// background runs what the backend waits for when it closes.
	background func(func())
}

// client returns an HTTP client on the wire that follows no redirects and has
// no time limit of its own: contexts bound requests, and streams are long.
func (w *wire) client() *http.Client {
	return &http.Client{
		Transport:     w,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// rpcError returns the JSON-RPC error that a body holds, or nil. Its id is often
// null, so that the SDK would not read it.
func rpcError(body []byte) *jsonrpc.Error {
	var msg struct {
		Error *jsonrpc.Error `json:"error"`
	}
	if json.Unmarshal(body, &msg) == nil && msg.Error != nil && msg.Error.Message != "" {
		return msg.Error
	}
	return nil
}
