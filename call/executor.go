package call

import (
	"github.com/sidecall/sidecall/call/verify"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/telemetry"
)

// Parts are what an Executor works with.
type Parts struct {
	Catalog  *catalog.Catalog
	Dedupe   *dedupe.Dedupe
	Recorder *telemetry.Recorder
	// Slots bounds the calls in flight in this sidecar, Waiting the duplicates
	// beside them that wait for the result of a call in flight, Looks the
	// questions to the store on behalf of calls that find no room. nil is no
	// bound.
	Slots, Waiting, Looks *limit.Bulkhead
}

// Executor runs calls.
type Executor struct {
	Parts

	verifier verify.Looker
}

// New returns an Executor of its parts, which stay their owners' own.
func New(parts Parts) *Executor {
	e := &Executor{Parts: parts}
	e.verifier = verify.Looker{Now: e.Dedupe.Now, Ask: e.ask, Recorder: e.Recorder}
	return e
}
