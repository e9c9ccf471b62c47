// Package dedupe makes a call happen at most once per id. It keeps one record
// per call in a Store and moves it through the states below:
//
//	absent ──claim──▶ CLAIMED ──settle──▶ DONE      (final)
//	                   │    ├───settle──▶ NOT_RUN ──claim──▶ CLAIMED, epoch+1
//	                   │    └───settle──▶ UNKNOWN ──late owner, resolution──▶ DONE
//	                   │                     └──────resolution──▶ NOT_RUN
//	                   └─lease expired──▶ UNKNOWN, or CLAIMED by the observer
//	                                      (epoch+1) when the effect may repeat
//
// The table is code in one place, Record.Admit, Settle, Renew and Observed:
// pure functions that every store applies under its own kind of lock (the redis
// store mirrors them in Lua, and one conformance suite, storetest, holds all
// stores to the same table).
//
// One admission (Store.Admit) and one settlement (Store.Settle) carry all the
// store work of a call, each in one round trip. What other rooms need of the
// store at those two moments travels inside the same two requests.
//
// Dedupe is the layer above a Store that a server uses. It adds what only a
// process can know: which calls are in flight right here (a duplicate joins
// them without a round trip), how long a claim is surely still ours by our own
// monotonic clock, and who has to renew it.
package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/tool"
)

// Key identifies a call. Tenant is the verified identity of the caller; the
// other three come from the request and may be empty, but for ID.
type Key struct {
	Tenant       string
	Conversation string
	Turn         string
	ID           string
}

// State is the state of a record.
type State uint8

const (
	// Absent: there is no record.
	Absent State = iota
	// Claimed: an owner is running the call, under a lease.
	Claimed
	// Done: it has a final result. No way leads out.
	Done
	// NotRun: it had no effect, or the tool may be repeated and nobody knows;
	// anyone with the same fingerprint may claim it again.
	NotRun
	// Unknown: it may or may not have run.
	Unknown
)

var stateNames = [...]string{
	Absent:  "absent",
	Claimed: "claimed",
	Done:    "done",
	NotRun:  "not_run",
	Unknown: "unknown",
}

// String returns absent, claimed, done, not_run or unknown.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Record is the record of a call.
type Record struct {
	State State
	// Epoch counts claims; the first is 1.
	Epoch int64
	// Owner is the token of the claim, unique per claim attempt of a process.
	Owner       string
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	StartedAt   time.Time // of the current epoch's claim, store's clock
	FinishedAt  time.Time // zero while Claimed
	LeaseUntil  time.Time // store's clock; zero once settled
	Attempts    int
	// Result is the response as it was settled, opaque here; nil when an
	// observer, not the owner, moved the record.
	Result []byte
}

// Request asks for the right to run a call.
type Request struct {
	Key         Key
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	// Owner is unique per call of this process. The same Owner asking again
	// gets its own claim back: a lost reply neither loses nor doubles it. Once it
	// has settled that, it is told InFlight at the most, and never Won again.
	Owner string
	// Lease is how long the claim holds without renewal; at least 1 ms.
	Lease time.Duration
	// Retention is how long the record is remembered after its last change;
	// at least Lease.
	Retention time.Duration
}

// Verdict is the answer to a Request.
type Verdict uint8

const (
	// Won: the caller holds the claim and must settle it.
	Won Verdict = iota + 1
	// Replay: the call is Done; Record.Result is its result.
	Replay
	// InFlight: another owner holds an unexpired claim.
	InFlight
	// OutcomeUnknown: the call is Unknown.
	OutcomeUnknown
	// Mismatch: the id was used with another tool or other arguments; the
	// record is unchanged.
	Mismatch
)

var verdictNames = [...]string{
	Won:            "won",
	Replay:         "replay",
	InFlight:       "in_flight",
	OutcomeUnknown: "unknown",
	Mismatch:       "mismatch",
}

// String returns won, replay, in_flight, unknown or mismatch.
func (v Verdict) String() string {
	if v >= Won && int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Admission is the outcome of Admit. Record is the record after the request.
type Admission struct {
	Verdict Verdict
	Record  Record
	// Journaled: the store does not have the record yet; it waits in this
	// process's journal. No store says so.
	Journaled bool
}

// Settlement ends a claim.
type Settlement struct {
	Key   Key
	Owner string
	// Epoch is the claim's. 0 means whatever epoch the owner holds, and is for
	// one case only: an owner that never learned whether its Admit was heard,
	// has sent nothing, and gives a possible claim back as NotRun.
	Epoch int64
	// State is Done, NotRun or Unknown.
	State     State
	Attempts  int
	Result    []byte
	Retention time.Duration
	// Resolves says that somebody other than the owner has found out what became
	// of an Unknown call: an operator, or a configured check. Owner and Epoch
	// are those of the record that was looked at, State is Done or NotRun.
	Resolves bool
	// Output, when not nil, is kept for ReadOutput in the same round trip.
	Output *Output
}

// Listed is a call of a listing.
type Listed struct {
	Key    Key
	Record Record
}

// Page is a part of a listing.
type Page struct {
	// Calls are those found; a page may be empty and yet not the last one.
	Calls []Listed
	// Next is where the listing goes on; empty after the last page.
	Next string
}

// Output is a full tool output that was cut for the model.
type Output struct {
	// Ref is unguessable and unique.
	Ref  string
	Data []byte
	// Complete is false when Data itself stops at the keep limit.
	Complete bool
	TTL      time.Duration
}

// SettleVerdict is the answer to a Settlement.
type SettleVerdict uint8

const (
	// Settled: the record holds this settlement, now or already.
	Settled SettleVerdict = iota + 1
	// Superseded: the claim is no longer this owner's, or the record is in a
	// state that this settlement may not leave. Nothing was changed, and the
	// settlement's Output was not kept.
	Superseded
)

// Store keeps records and kept outputs. Every method is one round trip, is
// safe for concurrent use and honours ctx. Every error means that nothing is
// known about whether the request took effect; asking again is always safe.
//
// Time is the store's: the sidecar's own clock decides nothing.
type Store interface {
	Admit(ctx context.Context, req Request) (Admission, error)
	Settle(ctx context.Context, s Settlement) (SettleVerdict, error)
	// Renew extends the lease of a claim to lease from now. False when the
	// claim is no longer this owner's.
	Renew(ctx context.Context, key Key, owner string, epoch int64, lease time.Duration) (bool, error)
	// Lookup returns the record; State is Absent when there is none. A claim
	// whose lease has run out is reported as what an observer would make of it.
	Lookup(ctx context.Context, key Key) (Record, error)
	// ListUnknown lists the calls that are Unknown, those included that an observer
	// would find so, in no particular order. from is empty, or the Next of the
	// page before. The work of a page is bounded, whatever the number of records;
	// a call that becomes Unknown meanwhile may be missing, and one may stand on
	// several pages. A record that cannot be read fails its page with ErrCorrupt:
	// a listing that leaves out a call would say that there is nothing to decide.
	ListUnknown(ctx context.Context, from string) (Page, error)
	// Output returns a kept output of the tenant; ErrNoOutput when there is none.
	Output(ctx context.Context, tenant, ref string) (Output, error)
	// Ping reports whether the store can serve now.
	Ping(ctx context.Context) error
	Close() error
}

// Watcher is a Store that can say when another process has settled a call. What
// it says is a hint, and may be lost: polling remains the truth.
type Watcher interface {
	// Watch returns a channel that gets a value soon after the call was settled,
	// or may have been. It holds no connection of its own. stop, which must be
	// called, ends it.
	Watch(key Key) (hints <-chan struct{}, stop func())
}

// The errors that a caller may want to tell apart. Every other error of a store
// means that it could not be reached or could not do its work just now.
var (
	// ErrNoOutput is returned by Store.Output for a ref that is not, or no
	// longer, kept for the tenant.
	ErrNoOutput = errors.New("no such output")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrInvalid is returned for a request that no store can ever accept;
	// nothing was changed, and asking again is useless.
	ErrInvalid = errors.New("invalid request to the store")
	// ErrCorrupt is returned when what a store holds cannot be what was
	// written to it. It is never repaired or skipped silently.
	ErrCorrupt = errors.New("the store is corrupt")
	// ErrFull is returned when a bound of the store is reached; it passes as
	// records expire.
	ErrFull = errors.New("the store is full")
)
