package dedupe

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Listed is a call with its record, of a listing say.
type Listed struct {
	Key    tool.CallID
	Record Record
	// Err is not nil for a record that cannot be read: a *Corrupt, or one that wraps ErrLayout.
	// Record is then empty, and Key too where the name of the record tells of no call.
	Err error
}

// Page is a part of a listing.
type Page struct {
	Calls []Listed // may be empty before the last page
	Next  string   // where the listing goes on; empty after the last page
}

// Store keeps records and kept outputs. Every method is one round trip, is safe for concurrent
// use and honours ctx. Every error means that nothing is known about whether the request took
// effect; asking again is always safe. Time is the store's: the sidecar's own clock decides
// nothing.
type Store interface {
	Admit(ctx context.Context, req Request) (Admission, error)
	Settle(ctx context.Context, s Settlement) (SettleVerdict, error)
	// Renew extends the lease of a claim, which it restores when the store has forgotten it:
	// see Record.Renew. It returns the record as it is then.
	Renew(ctx context.Context, r Renewal) (record Record, restored bool, err error)
	// Note returns the record of a call as it is Observed; State is Absent when there is none. It
	// takes down what a refused call leaves in the logs of its conversation, unless the
	// call is known; the logs that it returns are those after it.
	Note(ctx context.Context, n Note) (Known, error)
	Reader

	// Ping reports whether the store can serve now.
	Ping(ctx context.Context) error
	Close() error
}

// Reader is what a Store tells, and changes nothing for.
type Reader interface {
	// ListOpen lists the calls that are Undecided, as they are Observed, in no particular order.
	// from is empty, or the Next of the page before. The work of a page is bounded; a call that
	// begins to wait meanwhile may be missing, and one may stand on several pages. A record that
	// cannot be read is listed with its error: to leave it out would say that there is nothing to
	// decide. A store that cannot go on beyond it fails the page with ErrCorrupt.
	ListOpen(ctx context.Context, from string) (Page, error)
	// Find lists the calls of a tenant that a term is of, the latest claim first, each once,
	// with its record as it is Observed and its result. One whose record is forgotten is listed
	// as Absent for as long as IndexKeep says.
	Find(ctx context.Context, s Search) (Page, error)
	// Output returns a kept output of the tenant; ErrNoOutput when there is none.
	Output(ctx context.Context, tenant, ref string) (Output, error)
	// Now returns the store's time, which may be another than this process's.
	Now(ctx context.Context) (time.Time, error)
}

// Watcher is a Store that can say when another process has settled a call. What it says is a
// hint, and may be lost: polling remains the truth.
type Watcher interface {
	// Watch returns a channel that gets a value soon after the call was settled, or may have
	// been. stop, which must be called, ends it.
	Watch(key tool.CallID) (hints <-chan struct{}, stop func())
}
