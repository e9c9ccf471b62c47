package histories

import (
	"cmp"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// outcome is one thing that an operation may do to a record.
type outcome struct {
	next state
	// told is the record of the answer, when it is not next.
	told    *state
	verdict dedupe.Verdict
	ok      bool
	now     span
	// What of next begins now.
	starts, leases, finishes bool
	// lasts is how long a hold lasts that begins now; 0 where it is a lease.
	lasts time.Duration
	// changes says that the record is stored anew, for retention from now.
	changes   bool
	retention time.Duration
}

// heard returns the record after the outcome, narrowed by the answer; false
// when the answer is another one.
func (o outcome) heard(op timed) (state, bool) {
	next, now, same := o.next, o.now, true
	switch {
	case !op.Heard || op.Kind == Reopen:
	case op.Kind == Settle || op.Kind == Close:
		same = op.OK == o.ok
	case op.Kind == Renew && op.OK != o.ok:
		same = false
	case op.Verdict != o.verdict:
		same = false
	case o.told != nil:
		var seen state
		seen, same = o.told.tells(op.Record)
		next.lease, next.started = seen.finished, seen.started
	case o.changes:
		next, now, same = o.tellsNow(op)
	default:
		next, same = next.tells(op.Record)
	}
	if !same {
		return state{}, false
	}
	return o.at(next, now, op)
}

// tellsNow compares a record that was stored just now, and learns from it when
// that was.
func (o outcome) tellsNow(op timed) (state, span, bool) {
	next, now, r := o.next, o.now, op.Record
	if o.starts {
		next.started = exactly(r.Started)
		now = now.and(next.started)
	}
	if o.leases {
		next.lease = exactly(r.Lease)
		now = now.and(next.lease.plus(-o.length(op)))
	}
	if o.finishes {
		next.finished = exactly(r.Finished)
		now = now.and(next.finished)
	}
	next, ok := next.tells(r)
	return next, now, ok
}

// length is how long what begins now lasts.
func (o outcome) length(op timed) time.Duration { return cmp.Or(o.lasts, op.Lease) }

// at returns the record as it is when the outcome happens at an instant.
func (o outcome) at(next state, now span, op timed) (state, bool) {
	if !o.changes {
		return next, !now.empty()
	}
	now.from = max(now.from, next.clock)
	if now.empty() {
		return state{}, false
	}
	if o.starts {
		next.started = now
	}
	if o.leases {
		next.lease = now.plus(o.length(op))
	}
	if o.finishes {
		next.finished = now
	}
	next.clock, next.retention = now.from, o.retention
	next.forgotten = op.now.plus(o.retention)
	return next, true
}
