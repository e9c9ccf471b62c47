package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a settlement asks a store before it goes to the
	// journal. The caller waits for it; most hiccups of a store are shorter,
	// and most failovers longer than a caller can wait anyway.
	patience = 2 * time.Second
	// patienceDown is the same while the store is known to be down: time for
	// one try, in case it has just come back.
	patienceDown = 250 * time.Millisecond
	// How long to wait between two tries to settle.
	settleFirst = 20 * time.Millisecond
	settleMax   = time.Second
)

// courier brings those settlements to the store that reach it later than they
// should:
//
//	Claim.Settle ── not taken in time ──▶ journal ──▶ replay ───┐
//	                                                            ├──▶ store
//	Ticket.Admit ── answer not heard ───▶ memory ───▶ giveBack ─┘
//
// What tells what became of a call is in the journal, where it survives the
// process, if there is one that does. What only gives a claim back, under which nothing was sent, is in
// memory: the end of its lease does the same, later.
//
// Each has a goroutine that makes rounds from New to Close: a long journal must
// not hold up a claim that stands in the way of the next try.
type courier struct {
	store Store
	lease time.Duration
	life  *life
	log   *slog.Logger

	// down says that the store did not answer when it was last asked. It makes
	// settlements give up sooner and decides nothing else.
	down atomic.Bool

	journal Journal // nil: there is none
	// volatile: the journal is lost with the process.
	volatile bool
	late     chan struct{} // the replay has a reason to look now
	// replayPause is before the next try to replay; triedAt is when the one that
	// failed began. They are the replay's own.
	replayPause time.Duration
	triedAt     time.Time

	mu      sync.Mutex
	unheard []unheard
	lost    chan struct{} // gets a value when there is one more

	count struct {
		// ended counts the entries of the journal that are done, in whatever way.
		ended, replayed, forgotten, superseded, lost atomic.Int64
		// corrupt counts how often a record was met that cannot be read.
		corrupt atomic.Int64
	}
}

// newCourier returns a courier at work, which the end of the life ends.
func newCourier(store Store, o Options, l *life) *courier {
	c := &courier{
		store: store, lease: o.Lease, life: l, log: o.Log, journal: o.Journal,
		late: make(chan struct{}, 1), lost: make(chan struct{}, 1), replayPause: replayFirst,
	}
	_, c.volatile = o.Journal.(*satchel)
	c.life.rounds(c.giveBackRound)
	if c.journal != nil {
		c.life.rounds(c.replayRound)
	}
	return c
}

// nudge gives whoever rests a reason to look, which may have one already.
func nudge(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// last brings what would be lost with the process to the store, if it takes it
// now.
func (c *courier) last(ctx context.Context) {
	if c.volatile && c.journal.Waiting() > 0 {
		_ = c.replay(ctx) // what is left is told by close
	}
}

// close closes the journal.
func (c *courier) close() error {
	if c.journal == nil {
		return nil
	}
	if s, ok := c.journal.(*satchel); ok {
		for group := s.after(0); len(group) > 0; group = s.after(0) {
			for _, entry := range group {
				s.Done(entry.Seq)
				c.lose(c.log.With("call", entry.Settlement), errProcessEnds)
			}
		}
	}
	return c.journal.Close()
}

// heard notes that the store has answered a request, unless err says that it
// has not. A record that it cannot read is an answer, and is told an operator.
func (c *courier) heard(err error) {
	if IsCorrupt(err) {
		c.count.corrupt.Add(1)
		c.log.Error("a record is corrupt: nobody can tell from it what became of its call, which is not run until somebody has looked at it", "error", err)
		err = nil
	}
	if err == nil && c.down.Load() && c.down.CompareAndSwap(true, false) {
		nudge(c.late)
	}
}

// patience is how long a settlement may ask the store.
func (c *courier) patience() time.Duration {
	switch {
	case c.journal == nil, c.volatile:
		return c.lease
	case c.down.Load():
		return min(c.lease, patienceDown)
	default:
		return min(c.lease, patience)
	}
}

// final reports errors that asking again cannot change.
func final(err error) bool {
	_, failed := errors.AsType[*FailedError](err)
	_, ousted := errors.AsType[*RivalError](err)
	return failed || ousted || hopeless(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLayout)
}

// hopeless reports that no store will ever take a request.
func hopeless(err error) bool { return errors.Is(err, ErrInvalid) || IsCorrupt(err) }

// LateState counts the settlements that did not reach their store in time, or
// that it refused.
type LateState struct {
	// Waiting is how many wait in the journal now.
	Waiting int
	// Replayed is how many the store has taken from the journal since,
	// Superseded how many it did not take, from there or at the end of the call,
	// because somebody else had decided the call.
	Replayed, Superseded int64
	// Forgotten is how many times, at a renewal, at the end of the call or from the
	// journal, the store knew nothing any more of a call that it was told of: it
	// had lost its claim, and may have lost others.
	Forgotten int64
	// Lost is how many neither the store nor the journal has, as far as this
	// process knows: their calls stay unknown.
	Lost int64
	// Damaged is how many damages of the journal's file were found.
	Damaged int64
	// InMemory: what waits is lost with the process, for there is no journal.
	InMemory bool
}

func (c *courier) state() LateState {
	n := &c.count
	state := LateState{Replayed: n.replayed.Load(), Superseded: n.superseded.Load(), Forgotten: n.forgotten.Load(), Lost: n.lost.Load()}
	if c.journal != nil {
		state.Waiting, state.Damaged, state.InMemory = c.journal.Waiting(), c.journal.Damaged(), c.volatile
	}
	return state
}
