package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
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
	// MaxWait bounds one Ticket.Wait whose context has no (or a very late)
	// deadline. Default 10 min.
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
		flights: flights{byKey: map[Key]*flight{}, lost: map[Key]int{}},
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

// AtWork reports whether this process is admitting or running a call with this
// key right now, also one whose claim it has lost. It does not touch the store.
func (d *Dedupe) AtWork(key Key) bool { return d.flights.atWork(key) }

// newOwner returns a token that no other call of any process has.
func (d *Dedupe) newOwner() string {
	b := make([]byte, 0, len(d.options.Incarnation)+13)
	b = append(b, d.options.Incarnation...)
	return string(strconv.AppendUint(b, d.owners.Add(1), 36))
}

// watch asks the store for hints on a call of another process; nil when it has
// none to give.
func (d *Dedupe) watch(key Key) (hints <-chan struct{}, stop func()) {
	if watcher, ok := d.store.(Watcher); ok {
		return watcher.Watch(key)
	}
	return nil, func() {}
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
