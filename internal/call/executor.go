package call

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/verify"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/taint"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// Catalog is where an Executor and its fronts look up what can be called. A call is
// looked up once: it is told all of what it does by one lease, which its front takes,
// so that it never sees two generations.
type Catalog interface {
	Lease() catalog.Lease
	// Snapshot is for who only looks. In a call that is the right to repeat what may
	// have had its effect (see repeatable), which a later generation may take away.
	Snapshot() *catalog.Snapshot
}

// Parts are what an Executor works with.
type Parts struct {
	Limits

	Catalog Catalog
	Dedupe  *dedupe.Dedupe
	// Book has the results that were left out of conversations; nil has none.
	Book     *conversation.Book
	Recorder *telemetry.Recorder
	// Life ends what goes on without its caller; nil is without end.
	Life context.Context //nolint:containedctx // the end of many calls, not of one
	// Hold hears of a call that goes on without its caller, until release; nil
	// when nobody wants to.
	Hold func() (release func())
	// Notify is told of calls that need a person; nil tells nobody.
	Notify *notify.Notifier
}

// Limits are those of all calls of a sidecar; nil is no bound.
type Limits struct {
	// Slots bounds the calls in flight, Waiting the duplicates beside them that wait
	// for the result of a call in flight, Looks the questions to the store on behalf
	// of calls that find no room.
	Slots, Waiting, Looks *limit.Bulkhead
	// Bytes bounds what requests and replies hold at the same time.
	Bytes *limit.Bytes
}

// Executor runs calls.
type Executor struct {
	Parts

	replays  replays
	texts    errorTexts
	verifier verify.Looker
	makers   []rules.Maker
}

// Records are the calls that are recorded: what is known of them.
type Records struct{ *Executor }

// Records are those of the calls that it runs.
func (e *Executor) Records() Records { return Records{e} }

// Settlements are how recorded calls are settled that are unknown or held: by a person, or by a
// verification.
type Settlements struct{ Records }

// Settlements are those of the calls that it runs.
func (e *Executor) Settlements() Settlements { return Settlements{e.Records()} }

// Prompts are what calls are made for.
type Prompts struct{ *Executor }

// Prompts are those of the calls that it runs.
func (e *Executor) Prompts() Prompts { return Prompts{e} }

// New returns an Executor of its parts, which stay their owners' own.
func New(parts Parts) *Executor {
	e := &Executor{Parts: parts, makers: makers(&taint.Memory{})}
	if e.Life == nil {
		e.Life = context.Background()
	}
	if e.Hold == nil {
		e.Hold = func() func() { return func() {} }
	}
	e.verifier = verify.Looker{Now: e.Dedupe.Now, Ask: e.ask, Recorder: e.Recorder}
	return e
}
