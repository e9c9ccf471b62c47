package mcptool

import (
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What a server may ask of its client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
)

const (
	// maxAsked is how many requests of a server wait for their answers at a time;
	// more are dropped. The SDK takes any number, with a goroutine for each, so that
	// a server which asks and does not read would fill the memory.
	maxAsked = 64
	// maxChanges is how many notes of one change after another wait: the tool list is
	// read once for all of them.
	maxChanges = 64
	// maxAskedParams bounds the parameters of what waits, in bytes. A ping has none, and
	// most else that a server may ask is refused. maxQuestion bounds those of what a caller
	// may be asked.
	maxAskedParams = 4 << 10
	maxQuestion    = 256 << 10
	// maxNote bounds the parameters of what is said to everybody, in bytes: a URI, or nothing.
	maxNote = 4 << 10
)

// backlog counts what the server has asked and nobody has answered yet.
type backlog struct{ asked, changes atomic.Int32 }

// ask reports whether a request of the server may wait for its answer.
func (b *backlog) ask() bool {
	if b.asked.Add(1) <= maxAsked {
		return true
	}
	b.asked.Add(-1)
	return false
}

// answered says that one waits no longer.
func (b *backlog) answered() { b.asked.Add(-1) }

// change reports whether a note that the tool list has changed may wait.
func (b *backlog) change() bool { return b.changes.Add(1) <= maxChanges }

// relisted says that such notes have been heard.
func (b *backlog) relisted() { b.changes.Store(0) }

// slimmed is a message of the server without what nobody reads, if that is large.
func slimmed(r *jsonrpc.Request) *jsonrpc.Request {
	if len(r.Params) <= maxAskedParams || len(r.Params) <= maxQuestion && (r.Method == methodElicit || r.Method == methodSample) {
		return r
	}
	return &jsonrpc.Request{ID: r.ID, Method: r.Method}
}
