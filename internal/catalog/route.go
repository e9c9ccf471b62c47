package catalog

import (
	"time"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// BuiltIn is the backend name of the tools that Sidecall brings itself.
const BuiltIn = "sidecall"

// Route is everything that running a tool needs, compiled once when the tool
// is registered. It is immutable; calls in flight keep the route they began
// with, whatever the catalog does meanwhile.
type Route struct {
	Tool   tool.Tool
	Schema *schema.Schema
	// Backend runs the tool; Target is the backend's own name for it.
	Backend backend.Backend
	Target  string
	// Declaration is tool.Discovered's; nil where there is none.
	Declaration any
	// Heartbeat says that the backend reports progress, which then keeps an
	// attempt alive beyond its timeout, up to the deadline of the call.
	Heartbeat bool
	// Program reads replies: empty, partial, error mapping, output schema.
	Program *interpret.Program

	// Guards, shared by the tools of one backend. nil means no such guard. Connection
	// opens by what concerns its connection alone, and so every tool of it.
	Connection *breaker.Breaker
	Rate       *limit.Rate
	Retries    *retry.Budget
	Slots      *limit.Bulkhead
	// Guards of this tool alone. Breaker opens by how its own calls fail. ToolSlots
	// bounds them; Room does where the backend has a queue in which they would come
	// too late.
	Breaker   *breaker.Breaker
	ToolSlots *limit.Bulkhead
	Capacity  *limit.Adaptive

	// Refused says why the tool is known and must not be called; empty for one that
	// may be. Withdrawal says the same of one that was not when the route was made.
	Refused    string
	Withdrawal *Withdrawal

	// Verification finds out what became of a call whose answer was lost; nil
	// when nothing is configured.
	Verification *Verification

	// Compensation is how a call that has happened is undone; nil when nothing is configured.
	Compensation *Compensation

	// Approval says of which calls a person is asked first; nil where of none.
	Approval *interpret.Approval

	// Recovery is how its failed calls are told what was tried before; nil where they
	// are not.
	Recovery *Recovery

	// Search picks the arguments that its calls are found by.
	Search *failures.Targeting

	// Secrets takes the secrets of the config out of what the tool says and
	// returns; nil when there are none.
	Secrets *redact.Set
}

// Blocked is for how long no call of the tool is let through by a breaker; 0 when one
// would be now.
func (r *Route) Blocked() time.Duration {
	return max(r.Breaker.RetryAfter(), r.Connection.RetryAfter())
}

// Compensation undoes a call by one of another tool.
type Compensation struct {
	Tool string
	Args *interpret.Arguments
}

// Verification finds out what became of a call whose answer was lost, by asking
// a read-only tool.
//
// That the effect is there proves that the call has happened. That it is not
// there proves nothing while the request may still be under way: only an answer
// that was asked for NotRunAfter or longer after the call's end does.
type Verification struct {
	// Tool is the read-only tool.
	Tool    string
	Program *interpret.Verification
	// NotRunAfter is from when on an effect that is not there will not come.
	NotRunAfter time.Duration
	// Timeout bounds one verification; the tool's own attempt timeout does too.
	Timeout time.Duration
}
