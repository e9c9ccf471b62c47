// Package dedupe makes a call happen at most once per id. It keeps one record
// per call in a Store and moves it through the states below:
//
//	absent ──claim──▶ CLAIMED ──settle──▶ DONE      (final)
//	                   │    ├───settle──▶ NOT_RUN ──claim──▶ CLAIMED, epoch+1
//	                   │    └───settle──▶ UNKNOWN ──late owner, resolution──▶ DONE
//	                   │                     └──────resolution──▶ NOT_RUN
//	                   └─lease expired──▶ UNKNOWN, or CLAIMED by the observer
//	                                      (epoch+1) when the effect may repeat
//	absent, NOT_RUN, HELD ──answered in its conversation──▶ CLOSED (final)
//	absent, NOT_RUN ──a person is asked──▶ HELD ──allowed, sent again──▶ CLAIMED
//	                                       └─────denied──▶ DONE
//	absent ──its owner, running it──▶ UNKNOWN, or CLAIMED when it may repeat
//
// The table is code in one place, Record.Admit, Settle, Renew and Observed: pure functions. So
// is what a request does to all that it touches: a Step over Rows, which Machine makes. A store
// is an Engine: it does steps one after the other, each whole or not at all. One conformance
// suite, storetest, holds all of them to the same table.
//
// A call costs two requests to the store, Admit and Settle, each one round trip.
//
// Dedupe is the layer above a Store that a server uses. It adds what only a process can know:
// which calls are in flight right here (a duplicate joins them without a round trip), and how
// long a claim is surely still ours by our own clocks.
package dedupe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Dedupe admits calls against a Store and holds their claims.
type Dedupe struct {
	Reader // what is not told otherwise is told as the store does

	fence   *fence
	options Options
	life    *life
	flights flights
	outbox  *outbox
	owners  atomic.Uint64 // the last owner token given out
}

// New returns a Dedupe over a store, which is its own from now on: Close closes it.
func New(store Store, options Options) *Dedupe {
	d := &Dedupe{options: options.withDefaults(), life: newLife()}
	d.flights = flights{byKey: map[tool.CallID]*flight{}, lost: map[*flight]tool.CallID{}}
	d.Reader, d.fence = store, newFence(store, d.options, d.life)
	d.outbox = newOutbox(d.fence, d.options, d.life)
	if d.fence.heard = d.outbox.heard; d.fence.tenures != nil {
		d.life.rounds(d.fence.round)
	}
	return d
}

// newOwner returns a token that no other call of any process has.
func (d *Dedupe) newOwner() string {
	var digits [13]byte
	return d.fence.known.Load().head + d.options.Incarnation + string(strconv.AppendUint(digits[:0], d.owners.Add(1), 36))
}

// Alone waits until this process is the only one of its instance, until the store does not
// answer, or until ctx ends. The error is a *RivalError when another lives under its name.
func (d *Dedupe) Alone(ctx context.Context) error {
	err := d.fence.wait(ctx, func(known *standing) bool { return known.decided })
	if rival, ok := errors.AsType[*RivalError](d.fence.known.Load().why); ok {
		return rival
	}
	return err
}

// Ousted gets a *RivalError when another process is this instance: this one is to end. It is
// nil where there are no instances.
func (d *Dedupe) Ousted() <-chan error { return d.fence.ousted }

// MayBeForgotten reports whether the record of a call of an age, by the store's clock, may
// have outlived its retention. It errs on the careful side: a store that fails over goes on
// with another clock.
func (d *Dedupe) MayBeForgotten(age time.Duration) bool {
	return age > d.options.Retention-d.options.Retention/10
}

// Retention is how long a record is remembered after its last change.
func (d *Dedupe) Retention() time.Duration { return d.options.Retention }

// AtWork reports whether this process is admitting or running a call right now, also one
// whose claim it has lost.
func (d *Dedupe) AtWork(key tool.CallID) bool { return d.flights.atWork(key) }

// Tally returns what a counter of a conversation stands at.
func (d *Dedupe) Tally(ctx context.Context, tenant, conversation, counter string) (Tally, error) {
	known, err := d.Known(ctx, Note{Key: nobody(tenant, conversation), Counter: counter})
	return known.Tally, err
}

// ListOpen is Store.ListOpen, but for what is at work. What cannot be read, and has no name of a
// call, is only told in the log; what waits in the journal is known to Told.
func (d *Dedupe) ListOpen(ctx context.Context, from string) (Page, error) {
	page, err := d.listed(d.fence.ListOpen(ctx, from))
	now := sync.OnceValues(func() (time.Time, error) { return d.Now(ctx) })
	for i := 0; i < len(page.Calls) && err == nil; i++ {
		err = d.outlived(&page.Calls[i].Record, now)
	}
	page.Calls = slices.DeleteFunc(page.Calls, func(call Listed) bool { return call.Err == nil && !call.Record.State.Open() })
	return page, err
}

// Find is Store.Find. What cannot be read is as in ListOpen.
func (d *Dedupe) Find(ctx context.Context, s Search) (Page, error) {
	return d.listed(d.fence.Find(ctx, s))
}

// listed leaves out of a page what has no name. Of all that cannot be read the log is told.
func (d *Dedupe) listed(page Page, err error) (Page, error) {
	d.outbox.heard(err)
	page.Calls = slices.DeleteFunc(page.Calls, func(call Listed) bool {
		if call.Err != nil {
			d.outbox.heard(call.Err)
		}
		return call.Key.ID == ""
	})
	return page, err
}

// Resolve settles an Unknown or a Held call on behalf of somebody other than its owner, who has
// looked at it. As Held it may be run when it is sent again, and words say who allows it; else
// they are its result. Superseded means that it is no longer what it was then.
func (d *Dedupe) Resolve(ctx context.Context, call Listed, as State, words []byte) (SettleVerdict, error) {
	s := Settlement{
		Key: call.Key, Owner: call.Record.Owner, Epoch: call.Record.Epoch, Resolves: true, By: d.fence.known.Load().head,
		State: as, Attempts: call.Record.Attempts, Result: words, Details: call.Record.Details, Retention: d.options.Retention,
	}
	if as == Held {
		s.Result, s.Approval = nil, words
	}
	return d.fence.Settle(ctx, s)
}

// LeavesReceipts reports that settlements leave receipts.
func (d *Dedupe) LeavesReceipts() bool { return d.options.Receipts }

// Receipts returns a part of the receipts of a conversation: see Note.Receipts.
func (d *Dedupe) Receipts(ctx context.Context, tenant, conversation string, from int64) (Chain, error) {
	known, err := d.Known(ctx, Note{Key: nobody(tenant, conversation), Receipts: true, From: from})
	return known.Chain, err
}

// nobody is the key of no call of a conversation that anybody makes.
func nobody(tenant, conversation string) tool.CallID {
	return tool.CallID{Tenant: tenant, Conversation: conversation, ID: "."}
}

// Ping reports whether the store can serve now.
func (d *Dedupe) Ping(ctx context.Context) error {
	err := cmp.Or(d.fence.Ping(ctx), d.fence.check()) // without a tenure nothing with an effect is served
	d.outbox.heard(err)
	return err
}

// Late counts the settlements that were late since the start of this process.
func (d *Dedupe) Late() LateState {
	c, n := d.outbox, &d.outbox.count
	return LateState{
		Waiting: c.late.waiting(), Damaged: c.late.journal.Damaged(), InMemory: c.volatile && c.late.max > 0,
		Replayed: n.replayed.Load(), Superseded: n.superseded.Load(), Forgotten: n.forgotten.Load(), Lost: n.lost.Load(),
	}
}

// Corrupt is how often a record was met since the start of this process that is Corrupt.
func (d *Dedupe) Corrupt() int64 { return d.outbox.count.corrupt.Load() }

// Close refuses new calls, sends waiting duplicates away, waits until ctx ends for what runs
// in the background, and closes the store. A claim settled later gets ErrClosed.
func (d *Dedupe) Close(ctx context.Context) error {
	if d.outbox.volatile { // what would be lost with the process; what is left is told by close
		_, _ = d.outbox.late.replay(ctx, d.outbox.deliver)
	}
	err := d.life.end(ctx)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	if d.flights.idle() {
		d.fence.resign(ctx)
	}
	return errors.Join(err, d.fence.Close(), d.outbox.close())
}
