// Package backend says what Sidecall needs of a place where tools live. Each
// kind of place has a package of its own below this one.
package backend

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sidecall/sidecall/internal/tool"
)

// ErrLeft is wrapped by why a backend is down whose program has gone in order: nobody has
// to see to it.
var ErrLeft = errors.New("the last one has left")

// Backend is a place where tools live. Implementations are safe for concurrent
// use, never retry an attempt on their own, and never keep a goroutine or a
// process of an invocation beyond its context plus a short, bounded grace.
type Backend interface {
	// Invoke makes one attempt at one tool. Exactly one attempt: whatever the
	// transport would re-send by itself is switched off.
	//
	// On success failure is nil. On a failure the reply holds whatever arrived
	// (an HTTP error body, stderr), so that the tool's own error mapping can
	// look at it. Invoke returns promptly when ctx ends; an attempt cut off
	// by ctx is Ambiguous unless nothing had been sent.
	Invoke(ctx context.Context, call Invocation) (reply tool.Reply, failure *tool.Failure)

	// Close ends what the backend owns (connections, processes) and waits for
	// it, at most until ctx ends. No Invoke may be started after Close.
	Close(ctx context.Context) error
}

// Discoverer is a Backend that finds its tools at run time.
type Discoverer interface {
	Backend

	// Run connects, discovers and keeps the connection alive until ctx ends,
	// with backoff. It calls update with the whole list, names without prefix,
	// each time the list changed, and with an error each time the backend went
	// down; the tools last seen stay callable and fail by themselves.
	// update is never called concurrently.
	Run(ctx context.Context, update func(tools []tool.Discovered, err error))
}

// Right is the right to send a call. It can be lost while a request is on its
// way to a connection: what is claimed for a while may be decided by somebody
// else when that is over.
type Right interface {
	// Held reports whether the call may be sent now. It asks nobody, and costs
	// nothing worth mentioning.
	Held() bool
}

// Invocation is one attempt.
type Invocation struct {
	// CallID is the call's. A backend keeps apart what is of different tenants and
	// conversations.
	tool.CallID

	// Client is what the program calls itself that has made the call, if it says so.
	Client string
	// Tool is the registered name; Target the backend's own name for it (for a
	// discovered tool, without prefix).
	Tool   string
	Target string
	// Declaration is tool.Discovered's that the call was checked by.
	Declaration any
	// Args are the validated arguments: one JSON object, canonical (RFC 8785).
	Args json.RawMessage
	// Parsed is Args decoded: map[string]any with json.Number for numbers.
	// Read-only: attempts share it.
	Parsed map[string]any
	// IdempotencyKey is the same for every attempt of a call, different
	// for every call, 32 to 64 characters of [A-Za-z0-9_-].
	IdempotencyKey string
	// Attempt counts from 1.
	Attempt int
	// Right to send the call, which the backend asks for right before the first
	// byte of the request leaves: Withheld. nil is always held.
	Right Right
	// Effect of the tool: what the transport may consider harmless to repeat.
	Effect tool.Effect
	// RejectsBeforeWork and FailsCleanly as in tool.Policy.
	RejectsBeforeWork []int
	FailsCleanly      bool
	// MaxBytes bounds what is read of the reply. Reading stops there; the
	// reply then says so and is not a failure.
	MaxBytes int64
	// Memory there is for the reply below MaxBytes: see Fits. nil is without a bound.
	Memory Memory
	// MaxChars is how many characters of a result the model will get.
	MaxChars int
	// Round is what a client of MCP says beside its arguments; nil of any other.
	Round *Round
	// Progress, when not nil, is told of signs of life of a long call
	// (MCP progress). Called from any goroutine.
	Progress func(Sign)
	// Caller can be told and asked while the call runs; nil when nobody can.
	Caller Caller
}

// Sign is a sign of life of a long call.
type Sign struct {
	Note string
	// Done is how far it has come, of Total; 0 where that is not known.
	Done, Total float64
}

// Caller is who waits for a call. Its methods are safe for concurrent use.
type Caller interface {
	// Progressed and Said tell, and never wait: Said a notification of MCP.
	Progressed(sign Sign)
	Said(method string, params json.RawMessage)
	// Asked asks for what a server of MCP wants of its client, and waits for it.
	Asked(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Round is one round of a request of MCP, which may take several.
type Round struct {
	// Capabilities of the client, as MCP has them; empty for none.
	Capabilities json.RawMessage
	// Responses is what the client was asked for, State what the server gave with its question;
	// empty in the first round.
	Responses json.RawMessage
	State     string
}

// Asks reports that the client can be asked for something.
func (r *Round) Asks() bool { return r != nil && len(r.Capabilities) > 0 }

// Further reports that it is not the first round of its request.
func (r *Round) Further() bool { return r != nil && (r.State != "" || len(r.Responses) > 0) }

// Relay is a Backend whose server has more than tools: resources, prompts and completions, as
// MCP has them.
type Relay interface {
	Backend

	// Forward makes one request that has no effect, by its method and parameters in MCP, and
	// returns the result as it came. An error that is the server's own is a *Refusal.
	Forward(ctx context.Context, method string, params json.RawMessage, memory Memory) (result json.RawMessage, err error)

	// Subscribe has its server tell of a resource, among what is for everybody, until end is called. A
	// ctx bounds how long that is waited for, and cuts neither off.
	Subscribe(ctx context.Context, uri string) (end func(context.Context) error, err error)

	// Listen signals, without waiting, that the server has said something that is for everybody,
	// until stop is called. next is what it has said since, one by one; false when that is all.
	Listen(there chan<- struct{}) (next func() (Note, bool), stop func())
}

// Note is a notification of MCP.
type Note struct{ Method, Params string }

// Refusal is an error of a server in the place of a result, as JSON-RPC has it.
type Refusal struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }
