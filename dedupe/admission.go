package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	randv2 "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// How often a claim held by another process is asked after. Polling is the
// truth; it starts quickly because most calls are short, and slows down because
// the ones that are not can be very long.
const (
	pollFirst = 50 * time.Millisecond
	pollMax   = time.Second
)

// Options of a Dedupe; zero values mean the defaults.
type Options struct {
	// Lease is how long a claim holds without renewal: how long a call of a
	// process that died blocks its duplicates. Default 30 s.
	Lease time.Duration
	// Retention is how long a record is remembered. Default 24 h; at least
	// Lease.
	Retention time.Duration
	// Incarnation names this process in the owner of a record, for whoever
	// looks at one. A random part that no other process has is always added.
	Incarnation string
	// MaxWaiting bounds the duplicates that wait here for a first call to end;
	// one more is told InFlight at once. Default 16,384.
	MaxWaiting int
	// MaxWait bounds the wait of a duplicate whose context has no (or a very
	// late) deadline. Default 10 min.
	MaxWait time.Duration
	// Journal keeps the settlements that the store does not take in time; nil:
	// there is none. It is the Dedupe's own from then on: Close closes it.
	Journal Journal
	// Log is told what becomes of them. Default: nobody.
	Log *slog.Logger
}

// withDefaults fills what was left out.
func (o Options) withDefaults() Options {
	if o.Lease <= 0 {
		o.Lease = 30 * time.Second
	}
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	o.Retention = max(o.Retention, o.Lease)
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = 16_384
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 10 * time.Minute
	}
	// 26 random characters (130 bits): two processes never share a prefix.
	o.Incarnation += "." + rand.Text() + "."
	return o
}

// Dedupe admits calls against a Store and holds their claims.
type Dedupe struct {
	store   Store
	options Options

	owners  atomic.Uint64 // the last owner token given out
	waiting atomic.Int64  // duplicates waiting now
	flights flights

	// born anchors the monotonic clock that decides what is still held.
	born time.Time
	// background ends when Close has waited long enough; closing when it begins.
	background context.Context
	cancel     context.CancelFunc
	closing    chan struct{}

	mu         sync.Mutex // guards closed together with tasks.Add
	closed     bool
	tasks      sync.WaitGroup // renewals, the returning of ghosts, the replay
	ghosts     []ghost
	haunted    chan struct{} // gets a value when there is one more
	exorcising bool

	late *late // settlements that the store did not take in time
}

// New returns a Dedupe over a store, which is its own from now on: Close closes
// it.
func New(store Store, options Options) *Dedupe {
	d := &Dedupe{
		store:   store,
		options: options.withDefaults(),
		flights: flights{byKey: map[Key]*flight{}},
		born:    time.Now(),
		closing: make(chan struct{}), haunted: make(chan struct{}, 1),
	}
	d.background, d.cancel = context.WithCancel(context.Background())
	d.late = newLate(options)
	if options.Journal != nil && d.begin() {
		go d.replay() // ends at Close
	}
	return d
}

// Admit asks for the right to run a call. Owner, Lease and Retention of the
// request are filled in here. With verdict Won, and only then, there is a
// claim, and the caller must settle it, whatever happens.
//
// A duplicate of a call that runs waits for it, here without touching the
// store, elsewhere by asking the store now and then, until ctx ends; it is then
// told InFlight. An error means that nobody knows whether the call is claimed;
// the caller must not run it.
func (d *Dedupe) Admit(ctx context.Context, req Request) (Admission, *Claim, error) {
	req.Owner = d.newOwner()
	req.Lease, req.Retention = d.options.Lease, d.options.Retention
	until := time.Now().Add(d.options.MaxWait)
	for {
		if d.isClosed() {
			return Admission{}, nil, ErrClosed
		}
		f, leads := d.flights.join(&req)
		if leads {
			return d.lead(ctx, req, f, until)
		}
		admission, decided, err := d.follow(ctx, &req, f, until)
		if decided || err != nil {
			return admission, nil, err
		}
	}
}

// newOwner returns a token that no other call of any process has.
func (d *Dedupe) newOwner() string {
	b := make([]byte, 0, len(d.options.Incarnation)+13)
	b = append(b, d.options.Incarnation...)
	return string(strconv.AppendUint(b, d.owners.Add(1), 36))
}

// lead asks the store on behalf of everybody here who wants this key, until
// there is an answer other than InFlight or ctx ends.
func (d *Dedupe) lead(ctx context.Context, req Request, f *flight, until time.Time) (Admission, *Claim, error) {
	var ended landing
	var last Admission // what the store said before
	var hints <-chan struct{}
	unwatch := func() {}
	defer func() { unwatch() }()
	claimed := false
	defer func() {
		if !claimed { // also when the store panics
			d.flights.land(req.Key, f, ended)
		}
	}()
	if answer, ok := d.pending(ctx, req); ok {
		ended.admission = &answer
		return answer, nil, nil
	}
	for pause := pollFirst; ; pause = min(2*pause, pollMax) {
		sent := time.Now()
		admission, err := d.ask(ctx, req)
		d.late.heard(err)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				ended.err = err
			} else if last.Verdict == InFlight {
				return last, nil, nil // it was, until there was no time left
			}
			return Admission{}, nil, err
		case admission.Verdict == Won:
			claimed = true
			d.flights.confirm(f, admission.Record)
			return admission, d.newClaim(ctx, req, admission.Record, f, sent), nil
		case admission.Verdict != InFlight:
			ended.admission = &admission
			return admission, nil, nil
		}
		last = admission
		d.flights.confirm(f, admission.Record)
		if !req.waits() {
			return admission, nil, nil
		}
		if hints == nil {
			if hints, unwatch = d.watch(req.Key); hints != nil {
				continue // to learn what happened before it was watched
			}
		}
		// Between half and the whole of the pause, so that the processes
		// waiting for one call do not all ask at once.
		jittered := pause/2 + randv2.N(pause/2)
		if err := d.wait(ctx, min(jittered, time.Until(until)), hints); err != nil || !time.Now().Before(until) {
			return admission, nil, closedOnly(err)
		}
	}
}

// watch asks the store for hints on a call of another process; nil when it has
// none to give.
func (d *Dedupe) watch(key Key) (hints <-chan struct{}, stop func()) {
	if watcher, ok := d.store.(Watcher); ok {
		return watcher.Watch(key)
	}
	return nil, func() {}
}

// follow waits for what becomes of the call that another request of this
// process leads. decided is false when the flight ended without an answer for
// this request, which then has to ask for itself.
func (d *Dedupe) follow(ctx context.Context, req *Request, f *flight, until time.Time) (admission Admission, decided bool, err error) {
	if d.waiting.Add(1) > int64(d.options.MaxWaiting) {
		d.waiting.Add(-1)
		return Admission{Verdict: InFlight, Record: d.flights.record(f)}, true, nil
	}
	defer d.waiting.Add(-1)
	for {
		sight := d.flights.look(f, req)
		if sight.decided || sight.landed {
			return sight.admission, sight.decided, sight.err
		}
		if !req.waits() {
			return Admission{Verdict: InFlight, Record: d.flights.record(f)}, true, nil
		}
		if err := d.wait(ctx, time.Until(until), sight.changed); err != nil || !time.Now().Before(until) {
			return Admission{Verdict: InFlight, Record: d.flights.record(f)}, true, closedOnly(err)
		}
	}
}

// wait returns nil when the time is over or something comes from wake, an error
// when ctx or the Dedupe ends before.
func (d *Dedupe) wait(ctx context.Context, at time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(at)
	defer timer.Stop()
	select {
	case <-wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return ErrClosed
	}
}

// closedOnly drops the end of a caller's context, which to a waiting duplicate
// is no error: the answer then is InFlight.
func closedOnly(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Lookup returns the record of a call; see Store.Lookup. While the store is away
// it is told from the journal, when that knows what became of the call.
func (d *Dedupe) Lookup(ctx context.Context, key Key) (Record, error) {
	record, err := d.store.Lookup(ctx, key)
	d.late.heard(err)
	if err != nil {
		return d.late.lookup(key, err)
	}
	return record, nil
}

// ListUnknown lists the calls of which nobody knows whether they ran; see
// Store.ListUnknown.
func (d *Dedupe) ListUnknown(ctx context.Context, from string) (Page, error) {
	return d.store.ListUnknown(ctx, from)
}

// Resolve settles an Unknown call on behalf of somebody other than its owner.
// call is the record as it was looked at. Superseded means that it is no longer
// what it was then, or not Unknown: nothing was changed.
func (d *Dedupe) Resolve(ctx context.Context, call Listed, as State, result []byte) (SettleVerdict, error) {
	return d.store.Settle(ctx, Settlement{
		Key: call.Key, Owner: call.Record.Owner, Epoch: call.Record.Epoch, Resolves: true,
		State: as, Attempts: call.Record.Attempts, Result: result, Retention: d.options.Retention,
	})
}

// Output returns a kept output of a tenant; see Store.Output.
func (d *Dedupe) Output(ctx context.Context, tenant, ref string) (Output, error) {
	return d.store.Output(ctx, tenant, ref)
}

// Ping reports whether the store can serve now.
func (d *Dedupe) Ping(ctx context.Context) error {
	err := d.store.Ping(ctx)
	d.late.heard(err)
	return err
}

// Close refuses new calls, sends waiting duplicates away, waits until ctx ends
// for what runs in the background, and closes the store. The server calls it
// when no claim is left: a claim settled later gets ErrClosed.
func (d *Dedupe) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.closing)
	d.mu.Unlock()

	finished := make(chan struct{})
	go func() { // ends with the tasks, which all heed the cancelled context
		d.tasks.Wait()
		close(finished)
	}()
	var err error
	select {
	case <-finished:
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.cancel()
	<-finished
	return errors.Join(err, d.store.Close(), d.late.close())
}

func (d *Dedupe) isClosed() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// begin registers a background task, unless the Dedupe is closing.
func (d *Dedupe) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.tasks.Add(1)
	return true
}

// elapsed is the monotonic time since the Dedupe was made.
func (d *Dedupe) elapsed(at time.Time) time.Duration { return at.Sub(d.born) }
