package embedded

import (
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// groupBytes bounds what the operations of one transaction write, by their weight.
const groupBytes = 16 << 20

// operation is one request on its way through the committer.
type operation interface {
	// apply does its work in a transaction. It may run again, in another
	// transaction, when the first one came to nothing.
	apply(t *txn) error
	// weight is roughly the number of bytes it writes.
	weight() int
	wait() *pending
}

// greed says what an operation does to a file that is full: of several those with the
// most are refused first.
type greed int

const (
	frees  greed = iota // it ends what has its room already, or writes nothing
	begins              // it takes room for something new
	keeps               // it keeps an output
)

func greedOf(op operation) greed {
	switch op := op.(type) {
	case *settleOp:
		if op.settlement.Output != nil {
			return keeps
		}
	case *admitOp, *converseOp, *noteOp:
		return begins
	}
	return frees
}

// pending is the part of an operation that its caller waits on.
type pending struct {
	phase atomic.Int32
	done  chan struct{} // closed when err and the operation's results are final
	err   error
}

// The phases of an operation. Whoever moves it out of queued, decides: the
// committer takes it, or its caller withdraws it.
const (
	queued = iota
	taken
	withdrawn
)

func newPending() pending { return pending{done: make(chan struct{})} }

func (p *pending) wait() *pending { return p }

// take claims the operation for the committer; false when it was withdrawn.
func (p *pending) take() bool { return p.phase.CompareAndSwap(queued, taken) }

// withdraw takes the operation back; false when it is too late.
func (p *pending) withdraw() bool { return p.phase.CompareAndSwap(queued, withdrawn) }

func (p *pending) finish(err error) {
	p.err = err
	close(p.done)
}

type admitOp struct {
	pending
	key       []byte
	req       dedupe.Request
	admission dedupe.Admission
	billed    bool // the draw changes its tally, beside what the claim adds
	// holds are who hold its effect once it has its claim.
	holds []dedupe.Key
}

func (o *admitOp) weight() int {
	n := entryBytes(o.key) + len(o.req.Charges)*dedupe.MaxCounterBytes
	if o.req.EffectKey != (dedupe.EffectKey{}) {
		n += dedupe.MaxHolders * entryBytes(o.key)
	}
	return n
}

// decide works out the admission; changed says that it has to be stored.
func (o *admitOp) decide(t *txn) (old entry, changed bool, err error) {
	old, err = t.find(o.key)
	if err != nil {
		return old, false, err
	}
	record, verdict, changed := old.Admit(o.req, t.now)
	o.admission, o.billed, o.holds = dedupe.Admission{Verdict: verdict, Record: record}, false, nil
	if old.Contends(&o.req, verdict) {
		if refused, err := o.contend(t); refused || err != nil {
			return old, false, err
		}
	}
	if o.req.Draw.Counter != "" {
		after, billed, exceeded, err := t.bill(&o.req, old.Record, record, verdict)
		if err != nil {
			return old, false, err
		}
		if exceeded != nil {
			o.admission = *exceeded
			return old, false, nil
		}
		o.admission.Tally, o.billed = after, billed
	}
	if !changed { // a replay needs the result
		err = t.loadResult(&old)
		o.admission.Record.Result = old.Result
	}
	return old, changed, err
}

// contend compares the request with those who hold its effect.
func (o *admitOp) contend(t *txn) (refused bool, err error) {
	refusal, holds, err := t.contend(&o.req)
	if o.holds = holds; err != nil || refusal == nil {
		return false, err
	}
	o.admission = *refusal
	if o.req.Draw.Counter != "" {
		o.admission.Tally, _, err = t.tally(sheetKey(o.req.Key, sheetTally, o.req.Draw.Counter))
	}
	return true, err
}

func (o *admitOp) apply(t *txn) error {
	old, changed, err := o.decide(t)
	if err != nil || !changed {
		return err
	}
	if err := t.put(old, o.admission.Record, o.req.Retention); err != nil {
		return err
	}
	if o.holds != nil {
		if err := t.hold(effectKey(o.req.Key, &o.req.EffectKey), o.holds, o.req.EffectKey.Keep(o.req.Retention)); err != nil {
			return err
		}
	}
	return o.count(t, old.Record)
}

// count applies what the admission does to tallies, and reads its logs.
func (o *admitOp) count(t *txn, old dedupe.Record) (err error) {
	drawn := sheetKey(o.req.Key, sheetTally, o.req.Draw.Counter)
	if o.billed {
		if err := t.setTally(drawn, o.admission.Tally, o.req.Retention); err != nil {
			return err
		}
	}
	moves := old.Moves(o.admission.Record)
	if err := t.move(o.req.Key, moves, o.req.Retention); err != nil {
		return err
	}
	if o.req.Draw.Counter != "" && len(moves) > 0 {
		if o.admission.Tally, _, err = t.tally(drawn); err != nil {
			return err
		}
	}
	if o.admission.Verdict == dedupe.Won {
		o.admission.Logs, err = t.logs(o.req.Key, o.req.Logs)
	}
	return err
}

type settleOp struct {
	pending
	key        []byte
	settlement dedupe.Settlement
	verdict    dedupe.SettleVerdict
}

func (o *settleOp) weight() int {
	n := entryBytes(o.key) + len(o.settlement.Result) + appendBytes(o.settlement.Appends)
	if o.settlement.Output != nil {
		n += len(o.settlement.Output.Data)
	}
	return n
}

func (o *settleOp) apply(t *txn) error {
	old, err := t.find(o.key)
	if err != nil {
		return err
	}
	if old.State == o.settlement.State {
		// What settling it again means depends on the result that it has.
		if err := t.loadResult(&old); err != nil {
			return err
		}
	}
	record, verdict, changed := old.Settle(o.settlement, t.now)
	o.verdict = verdict
	if changed {
		if err := o.end(t, old, record); err != nil {
			return err
		}
	}
	if verdict != dedupe.Settled {
		return nil
	}
	if err := t.free(o.settlement.Key, &o.settlement.Frees); err != nil {
		return err
	}
	if o.settlement.Output != nil {
		return t.keep(o.settlement.Key.Tenant, o.settlement.Output)
	}
	return nil
}

// end stores what a settlement changes.
func (o *settleOp) end(t *txn, old entry, next dedupe.Record) error {
	s := &o.settlement
	if err := t.put(old, next, s.Retention); err != nil {
		return err
	}
	if err := t.move(s.Key, old.Moves(next), s.Retention); err != nil {
		return err
	}
	if err := t.spend(s); err != nil {
		return err
	}
	return t.append(s.Key, s.Appends, s.Retention)
}

type renewOp struct {
	pending
	key   []byte
	owner string
	epoch int64
	lease time.Duration
	ok    bool
}

func (o *renewOp) weight() int { return entryBytes(o.key) }

func (o *renewOp) apply(t *txn) error {
	old, err := t.find(o.key)
	if err != nil {
		return err
	}
	var record dedupe.Record
	if record, o.ok = old.Renew(o.owner, o.epoch, o.lease, t.now); !o.ok {
		return nil
	}
	return t.put(old, record, old.Retention)
}

type restoreOp struct {
	pending
	key      []byte
	back     dedupe.Restoration
	record   dedupe.Record
	restored bool
}

func (o *restoreOp) weight() int { return entryBytes(o.key) }

func (o *restoreOp) apply(t *txn) error {
	old, err := t.find(o.key)
	if err != nil {
		return err
	}
	if o.record, o.restored = old.Restore(o.back, t.now); o.restored {
		if err := t.put(old, o.record, o.back.Retention); err != nil {
			return err
		}
		if err := t.move(o.back.Key, old.Moves(o.record), o.back.Retention); err != nil {
			return err
		}
		return t.regain(&o.back)
	}
	err = t.loadResult(&old)
	o.record.Result = old.Result
	return err
}

// readOp only looks, but after everything before it is on the disk.
type readOp struct {
	pending
	look func(t *txn) error
}

func (o *readOp) weight() int        { return 0 }
func (o *readOp) apply(t *txn) error { return o.look(t) }
