package mcptool

import (
	"encoding/json"
	"net/http"

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
	// session is what the answer says of the session.
	session sessionWord
}

// sessionWord is what an HTTP error says of the session.
type sessionWord uint8

const (
	// sessionKept: nothing that concerns this call.
	sessionKept sessionWord = iota
	// sessionDoubted: the session may be unknown, or a handler speaks of a
	// session of its own. What became of the call is open.
	sessionDoubted
	// sessionGone: the session is unknown, and the request was refused for it.
	sessionGone
)
