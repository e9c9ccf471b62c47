// Package dedupe makes a call happen at most once per id. It keeps one record
// per call in a Store and moves it through the states below:
//
//	absent ──claim──▶ CLAIMED ──settle──▶ DONE      (final)
//	                   │    ├───settle──▶ NOT_RUN ──claim──▶ CLAIMED, epoch+1
//	                   │    └───settle──▶ UNKNOWN ──late owner, operator──▶ DONE
//	                   └─lease expired──▶ UNKNOWN, or CLAIMED by the observer
//	                                      (epoch+1) when the effect may repeat
//
// One admission (Store.Admit) and one settlement (Store.Settle) carry all the
// store work of a call, each in one round trip. What other rooms need of the
// store at those two moments travels inside the same two requests.
package dedupe

import (
	"context"
	"errors"
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
	// NotRun: it provably had no effect; anyone with the same fingerprint may
	// claim it again.
	NotRun
	// Unknown: it may or may not have run.
	Unknown
)

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
	// gets its own claim back: a lost reply neither loses nor doubles it.
	Owner string
	// Lease is how long the claim holds without renewal.
	Lease time.Duration
	// Retention is how long the record is remembered after its last change.
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
	// Undecided: the call is Unknown.
	Undecided
	// Mismatch: the id was used with another tool or other arguments; the
	// record is unchanged.
	Mismatch
)

// Admission is the outcome of Admit. Record is the record after the request.
type Admission struct {
	Verdict Verdict
	Record  Record
}

// Settlement ends a claim.
type Settlement struct {
	Key   Key
	Owner string
	Epoch int64
	// State is Done, NotRun or Unknown.
	State     State
	Attempts  int
	Result    []byte
	Retention time.Duration
	// Output, when not nil, is kept for ReadOutput in the same round trip.
	Output *Output
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
	// Output returns a kept output of the tenant; ErrNoOutput when there is none.
	Output(ctx context.Context, tenant, ref string) (Output, error)
	// Ping reports whether the store can serve now.
	Ping(ctx context.Context) error
	Close() error
}

// ErrNoOutput is returned by Store.Output for a ref that is not, or no longer,
// kept for the tenant.
var ErrNoOutput = errors.New("no such output")
