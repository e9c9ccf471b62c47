package dedupe

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/tool"
)

// How often a claim held by another process is asked after.
const (
	pollFirst = 50 * time.Millisecond
	pollMax   = time.Second
	// maxWait bounds the wait of a caller that has no deadline, or a very late one.
	maxWait = 10 * time.Minute
)

// Ticket is the place of a request in the line of those who, in this process, want the same
// call. It belongs to one goroutine.
type Ticket struct {
	dedupe  *Dedupe
	request Request // as it was asked last; from the start, its Key

	flight *flight // nil once the request was answered or given up
	first  flight  // of a request that leads from the start, as most do
	leads  bool
	// under is what the store has said of what is under way, since the request leads:
	// InFlight or EffectInFlight; nil for nothing.
	under   *Admission
	changed <-chan struct{} // closed when there may be news for one who follows
}

// Join puts a request in line. It asks nothing of the store and never blocks. The first in line
// leads; what becomes of its call is what the others get. The caller must Leave.
func (d *Dedupe) Join(key tool.CallID) *Ticket {
	t := &Ticket{dedupe: d, request: Request{Key: key}}
	t.flight, t.leads = d.flights.join(key, &t.first)
	return t
}

// Leads reports that nobody else here is admitting or running the call.
func (t *Ticket) Leads() bool { return t.leads }

// Admit asks for the right to run the call, and never waits for another one's: one round trip
// when it leads; when it follows, what is known here. Key, Owner, Lease and Retention of req are
// filled in here. With verdict Won, and only then, there is a claim, which the caller must settle.
//
// A follower whose flight has ended without an answer for it leads from then on, and asks. After
// an answer that does not wait it may be called again: it then joins anew. An error means that
// nobody knows whether the call is claimed; the caller must not run it.
func (t *Ticket) Admit(ctx context.Context, req Request) (Admission, *Claim, error) {
	req.Key, req.Lease, req.Retention = t.request.Key, t.dedupe.options.Lease, t.dedupe.options.Retention
	req.Receipt = t.dedupe.options.Receipts && req.Effect != tool.ReadOnly && req.Key.Conversation != ""
	t.request = req
	for d := t.dedupe; ; {
		switch {
		case d.life.open.Err() != nil:
			return Admission{}, nil, ErrClosed
		case t.flight == nil:
			t.flight, t.leads = d.flights.join(t.request.Key, new(flight))
			t.under = nil
			continue
		case t.leads:
			if answer, waits := d.outbox.pending(ctx, t.request); waits {
				t.land(answer, nil)
				return answer, nil, nil
			}
			return t.ask(ctx)
		}
		answer, changed, err := d.flights.look(t.flight, &t.request)
		if t.changed = changed; changed != nil {
			return answer, nil, nil
		}
		t.flight = nil
		if answer.Verdict != 0 || err != nil {
			return answer, nil, err
		}
	}
}

// Wait waits, after Admit has said InFlight or EffectInFlight, for what becomes of the call: here
// without touching the store, elsewhere by asking it now and then, until ctx or maxWait
// is over: the answer then is the same. It may win the claim, when the one before has ended.
func (t *Ticket) Wait(ctx context.Context) (answer Admission, claim *Claim, err error) {
	within, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for !t.leads || t.flight == nil {
		answer, claim, err = t.Admit(ctx, t.request)
		if err != nil || !answer.Verdict.Waits() {
			return answer, claim, err
		}
		if t.leads {
			break
		}
		if t.dedupe.life.wait(within, untilWoken, t.changed) != nil {
			return answer, nil, context.Cause(t.dedupe.life.open)
		}
	}
	awaited := t.request.Key
	if t.under.Verdict == EffectInFlight {
		awaited = t.under.Earlier
	}
	answer = *t.under
	closed := t.dedupe.poll(within, awaited, func() bool {
		answer, claim, err = t.ask(ctx)
		return err != nil || !answer.Verdict.Waits()
	})
	return answer, claim, cmp.Or(err, closed)
}

// Leave gives the place up. A second time it does nothing.
func (t *Ticket) Leave() {
	if t.leads && t.flight != nil { // also when the store panicked
		t.land(Admission{}, nil)
	}
	t.flight = nil
}

func (t *Ticket) land(answer Admission, err error) {
	t.dedupe.flights.land(t.request.Key, t.flight, answer, err)
	t.flight = nil
}

// ask asks the store on behalf of everybody here who wants this call. A claim that an error or a
// panic keeps from being heard is given back.
func (t *Ticket) ask(ctx context.Context) (Admission, *Claim, error) {
	d, failure := t.dedupe, ErrPanic
	unconfirmed := d.fence.await(ctx)
	t.request.Owner = d.newOwner() // of the incarnation that this is by now
	sent := time.Now()
	defer func() {
		if failure != nil && unconfirmed == nil && !t.request.HoldOnly { // else nothing was asked for
			d.outbox.giveBack(t.request, failure)
		}
	}()
	failpoint.Hit(failpoint.AdmissionUnsent)
	var answer Admission
	var err error
	if unconfirmed == nil {
		answer, err = d.fence.Store.Admit(ctx, t.request)
	} else {
		answer, err = Recall(ctx, d.fence.Store, t.request, unconfirmed)
	}
	failpoint.Hit(failpoint.AdmissionDurable)
	failure = err
	d.outbox.heard(err)
	switch {
	case err != nil:
		return t.failed(ctx, err)
	case answer.Verdict == OutcomeUnknown && answer.Record.Owner == t.request.Owner && t.neverSent(ctx):
		return t.ask(ctx)
	}
	return t.heard(ctx, answer, sent)
}

// neverSent gives back the claim of a request that is told that its outcome is unknown: it was made, the
// answer was lost, and the store has changed hands since. Nothing can have been sent under it.
func (t *Ticket) neverSent(ctx context.Context) bool {
	r := &t.request
	verdict, err := t.dedupe.fence.Settle(ctx, Settlement{Key: r.Key, Owner: r.Owner, State: NotRun, Retention: r.Retention})
	return err == nil && verdict == Settled
}

func (t *Ticket) heard(ctx context.Context, answer Admission, sent time.Time) (Admission, *Claim, error) {
	switch answer.Verdict {
	case Won:
		f := t.flight // the claim's from now on
		t.flight = nil
		t.dedupe.flights.say(f, &answer.Record)
		return answer, newClaim(ctx, t.dedupe, &t.request, &answer.Record, f, sent), nil
	case InFlight:
		t.under = new(answer)
		t.dedupe.flights.say(t.flight, &answer.Record)
	case EffectInFlight: // of another call, under whose flight this one has no place
		t.under = new(answer)
	case Replay, OutcomeUnknown, Mismatch, AwaitsApproval:
		t.land(answer, nil)
	case MayRun, Exceeded, DuplicateEffect, EffectUnknown:
		t.land(Admission{}, nil) // what this request may not is no answer to the next
	default:
		return t.failed(ctx, fmt.Errorf("%w: it answers a request with %v", ErrCorrupt, answer.Verdict))
	}
	return answer, nil, nil
}

// failed deals with an error of the store, which those who follow hear too. When it is this
// request's own time that is up, it is no answer to them, and what was known before still holds.
func (t *Ticket) failed(ctx context.Context, err error) (Admission, *Claim, error) {
	switch {
	case ctx.Err() == nil:
		t.land(Admission{}, err)
	case t.under != nil:
		return *t.under, nil, nil
	default:
		t.land(Admission{}, nil)
	}
	return Admission{}, nil, err
}

// poll asks now and then, and soon after the store has a hint on a call, whether the wait for its
// end is over, until ctx ends, which to a waiting duplicate is no error.
func (d *Dedupe) poll(ctx context.Context, key tool.CallID, over func() bool) error {
	var hints <-chan struct{}
	if watcher, ok := d.fence.Store.(Watcher); ok {
		var unwatch func()
		hints, unwatch = watcher.Watch(key)
		defer unwatch()
		if over() { // what happened before it was watched has given no hint
			return nil
		}
	}
	for pause := pollFirst; ; pause = min(2*pause, pollMax) {
		// At random, so that the processes waiting for one call do not all ask at once.
		if d.life.wait(ctx, pause/2+rand.N(pause/2), hints) != nil {
			return context.Cause(d.life.open)
		}
		if over() {
			return nil
		}
	}
}
