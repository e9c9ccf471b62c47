// Package histories records what concurrent clients ask of a dedupe.Store and
// hear from it, and checks with porcupine that every such history is one that
// the table of states allows.
//
// The model here is written from the table alone and shares no code with the
// state machine that the stores run: a mistake there is not repeated here.
//
// # What the model accepts
//
// A history is accepted when each operation can be given one instant between
// its call and its return at which it took effect at once, in an order in which
// every answer is the one of the table:
//
//	absent                                  admit                    won, epoch 1
//	any                                     admit of other content   mismatch, record unchanged
//	CLAIMED                                 admit by its owner       won, same epoch, lease from now
//	CLAIMED, lease running                  admit by another         in flight, record unchanged
//	CLAIMED, lease out, non_idempotent¹     admit by another         unknown, UNKNOWN
//	CLAIMED, lease out, effect may repeat   admit by another         won, epoch+1
//	CLAIMED, lease running or out           admit by a later         as if it were out
//	                                        incarnation of its owner
//	NOT_RUN                                 admit by its owner       in flight, record unchanged
//	NOT_RUN                                 admit by another         won, epoch+1
//	NOT_RUN, effect may repeat, sent        admit as non_idempotent  unknown, UNKNOWN, non_idempotent
//	or of a later epoch than the first
//	UNKNOWN                                 admit                    unknown, record unchanged
//	DONE                                    admit                    replay, the result byte for byte
//	CLAIMED                                 renew by owner+epoch     lease from now, out or not
//	CLAIMED                                 settle by owner+epoch    DONE, NOT_RUN; UNKNOWN if non_idempotent
//	UNKNOWN, NOT_RUN²                       settle by owner+epoch    DONE
//	UNKNOWN, or CLAIMED with its lease
//	out and non_idempotent                  resolve, owner+epoch     DONE, NOT_RUN
//	the state it has already³               settle by owner+epoch    settled, record unchanged
//	any other                               settle, resolve, renew   refused, record unchanged
//	any                                     lookup                   the record; a claim with its lease out as
//	                                                                 UNKNOWN, NOT_RUN if its effect may repeat
//	absent, forgotten                       restore                  CLAIMED, lease from now; UNKNOWN if
//	                                                                 non_idempotent; owner and epoch as said
//	any other                               restore                  told, record unchanged
//	CLAIMED                                 reopen (embedded)        UNKNOWN if non_idempotent, else lease out⁴
//
// ¹ by the record or by the request. ² a resolution was wrong, the owner knows
// better. ³ DONE only with the same result; an UNKNOWN that has none takes that of
// its owner, and is stored anew. ⁴ even when its retention is over and
// nobody saw it any more: remembering longer breaks no promise. Epoch 0 stands
// for any epoch in a settlement as NOT_RUN.
//
// Hence: DONE never changes; an epoch has one owner, and each claim adds one to
// it; a running lease is never taken but by a later incarnation of its owner; an expired claim of a non_idempotent call
// is claimed again only after somebody said NOT_RUN; nothing is forgotten before
// its retention is over. Every field of a record that is told is compared.
//
// # Time
//
// Leases run on the store's clock, which is this host's wall clock. When the
// operation took effect is known only to lie between call and return, widened
// by Slack; so is, until the store tells it, the end of a lease that began then.
// The model keeps such instants as spans, narrows them by each answer, and takes
// a lease for running or out when the spans leave it open. It does not remember
// how two spans depend on each other, and it lets operations that change nothing
// see a clock that is ahead of a change that follows. So it may accept a history
// that differs from the table by less than the length of the operations
// involved; it never refuses one that the table allows.
//
// # Operations without an answer
//
// They may take effect at any time after their call, or never (a request that
// was cancelled, a connection that was cut). One whose process was killed takes
// effect before the store is opened again, or never. A request that the store
// may have sent again counts once as answered and once or twice more as
// unanswered.
//
// One that leaves the record as it is might as well never have taken effect. So
// of those that may take effect at any time only the others have a place in the
// order; what is left of them is put behind its end. Were each of them tried
// everywhere, the search would take many times as long for each of them.
package histories

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// Slack is how much the store's clock may differ from the wall clock of whoever
// recorded the history: stores count whole milliseconds, and the embedded one
// begins a millisecond after the last instant that it has recorded.
const Slack = 3 * time.Millisecond

// state is the record of one key, and what is known of its instants.
type state struct {
	kind     dedupe.State
	epoch    int64
	owner    string
	content  byte
	effect   tool.Effect
	attempts int
	result   string

	started, finished, lease span

	retention time.Duration
	forgotten span // when its retention is over
	// clock is the least that the store's clock can be when it changes this
	// record again.
	clock int64
	// over says that everything that was answered has its place in the order.
	over bool
}

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
	// changes says that the record is stored anew, for retention from now.
	changes   bool
	retention time.Duration
}

// timed is an operation with what is known of its instant on the store's clock.
type timed struct {
	*Operation
	now span
}

// model returns the model of one key.
func model() porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{clock: always.from}} },
		Step: func(s, input, _ any) []any {
			var next []any
			for _, n := range s.(state).step(input.(timed)) {
				next = append(next, n)
			}
			return next
		},
		Hash:              func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(input, _ any) string { return input.(timed).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return m.ToModel()
}

// step returns what the record can be after an operation with its answer.
func (s state) step(op timed) []state {
	var next []state
	switch {
	case op.Kind == end:
		s.over = true
		return []state{s}
	case s.over:
		return []state{s} // it never took effect
	case !op.Heard && op.Kind != Reopen && op.Return != Never:
		next = append(next, s) // likewise
	}
	op.now.from = max(op.now.from, s.clock)
	if kept, possible := s.remembered(op.now); possible {
		for _, o := range kept.respond(op.Operation, op.now) {
			if after, possible := o.heard(op); possible && (o.changes || op.Return != Never) {
				next = append(next, after)
			}
		}
	}
	if gone, possible := s.isForgotten(op.now); possible {
		next = append(next, gone.stepForgotten(op)...)
	}
	return next
}

// remembered returns the record if its retention may not be over at an instant.
// The end of it says nothing of the instant: a store may read one clock for its
// leases and another for its keys.
func (s state) remembered(now span) (state, bool) {
	if s.kind == dedupe.Absent {
		return s, true
	}
	early, end := now.before(s.forgotten)
	s.forgotten = end
	return s, !early.empty()
}

// isForgotten returns the record if its retention may be over at an instant.
func (s state) isForgotten(now span) (state, bool) {
	late, end := now.notBefore(s.forgotten)
	s.forgotten = end
	return s, s.kind != dedupe.Absent && !late.empty()
}

// stepForgotten is step for a record whose retention is over. Nobody sees it any
// more, but a store that is opened may still find it and decide its claim, which
// is as well: that nobody knows what became of the call is still true.
func (s state) stepForgotten(op timed) (next []state) {
	if op.Kind == Reopen {
		next = append(next, s)
		for _, o := range s.reopen(op.now) {
			if after, possible := o.heard(op); possible && after != s {
				next = append(next, after)
			}
		}
		return next
	}
	for _, o := range (state{clock: s.clock}).respond(op.Operation, op.now) {
		after, possible := o.heard(op)
		if possible && !o.changes {
			after = s
		}
		if possible && (o.changes || op.Return != Never) {
			next = append(next, after)
		}
	}
	return next
}

func (s state) respond(op *Operation, now span) []outcome {
	switch op.Kind {
	case Admit:
		return s.admit(op, now)
	case Settle:
		return s.settle(op, now)
	case Renew:
		return s.renew(op, now)
	case Lookup:
		return s.lookup(now)
	case Restore:
		return s.restore(op, now)
	case Reopen:
		return s.reopen(now)
	case end:
		panic("nothing is asked at the end of a history")
	default:
		panic(fmt.Sprintf("no such kind of operation: %d", op.Kind))
	}
}

func (s state) admit(op *Operation, now span) []outcome {
	stays := func(v dedupe.Verdict) []outcome { return []outcome{{next: s, verdict: v, now: now}} }
	switch {
	case s.kind == dedupe.Absent:
		return []outcome{s.claimed(op, now)}
	case s.content != op.Content:
		return stays(dedupe.Mismatch)
	case s.kind == dedupe.Done:
		return stays(dedupe.Replay)
	case s.kind == dedupe.Unknown:
		return stays(dedupe.OutcomeUnknown)
	case s.kind == dedupe.NotRun && s.owner == op.Owner:
		return stays(dedupe.InFlight)
	case s.kind == dedupe.NotRun && s.effect != tool.NonIdempotent && op.Effect == tool.NonIdempotent && s.attempts+int(s.epoch) > 1:
		return []outcome{s.doubted(op, now)}
	case s.kind == dedupe.NotRun:
		return []outcome{s.claimed(op, now)}
	case s.owner == op.Owner:
		return []outcome{{next: s, verdict: dedupe.Won, now: now, leases: true, changes: true, retention: op.Retention}}
	default:
		return s.contested(op, now)
	}
}

// contested: another asks for a claimed call.
func (s state) contested(op *Operation, now span) (all []outcome) {
	late, end := now.notBefore(s.lease)
	if decides(op.Owner, s.owner) {
		late, end = now, s.lease // its owner is gone, whatever its lease
	} else if early, end := now.before(s.lease); !early.empty() && !end.empty() {
		running := s
		running.lease = end
		all = append(all, outcome{next: running, verdict: dedupe.InFlight, now: early})
	}
	if late.empty() || end.empty() {
		return all
	}
	if s.effect != tool.NonIdempotent && op.Effect != tool.NonIdempotent {
		return append(all, s.claimed(op, late))
	}
	lost := s
	lost.kind, lost.lease = dedupe.Unknown, span{}
	return append(all, outcome{
		next: lost, verdict: dedupe.OutcomeUnknown, now: late, finishes: true, changes: true, retention: op.Retention,
	})
}

// doubted: that it did not run was said of a call that could be repeated.
func (s state) doubted(op *Operation, now span) outcome {
	s.kind, s.effect, s.attempts, s.result = dedupe.Unknown, op.Effect, 0, ""
	return outcome{next: s, verdict: dedupe.OutcomeUnknown, now: now, finishes: true, changes: true, retention: op.Retention}
}

func (s state) claimed(op *Operation, now span) outcome {
	claim := state{
		kind: dedupe.Claimed, epoch: s.epoch + 1, owner: op.Owner, content: op.Content, effect: op.Effect, clock: s.clock,
	}
	return outcome{
		next: claim, verdict: dedupe.Won, now: now, starts: true, leases: true, changes: true, retention: op.Retention,
	}
}

func (s state) settle(op *Operation, now span) (all []outcome) {
	refused := outcome{next: s, now: now}
	mine := s.kind != dedupe.Absent && s.owner == op.Owner &&
		(s.epoch == op.Epoch || op.Epoch == 0 && op.To == dedupe.NotRun)
	switch {
	case !mine:
		return []outcome{refused}
	case s.kind == op.To && (s.kind != dedupe.Unknown || s.result != "" || op.Result == ""):
		refused.ok = s.kind != dedupe.Done || s.result == op.Result
		return []outcome{refused}
	}
	settled := s
	settled.kind, settled.lease, settled.attempts, settled.result = op.To, span{}, op.Attempts, op.Result
	accepted := outcome{next: settled, ok: true, now: now, finishes: true, changes: true, retention: op.Retention}
	if op.Resolves && s.kind == dedupe.Claimed {
		return s.resolveClaim(op, refused, accepted)
	}
	if s.kind == op.To || s.leaves(op) {
		return []outcome{accepted}
	}
	return []outcome{refused}
}

// resolveClaim: somebody else decides about a claim, which is allowed once its
// lease is out and only when the call would be Unknown then.
func (s state) resolveClaim(op *Operation, refused, accepted outcome) (all []outcome) {
	if s.effect != tool.NonIdempotent || op.To == dedupe.Unknown {
		return []outcome{refused}
	}
	now := refused.now
	if early, end := now.before(s.lease); !early.empty() && !end.empty() {
		refused.now, refused.next.lease = early, end
		all = append(all, refused)
	}
	if late, end := now.notBefore(s.lease); !late.empty() && !end.empty() {
		accepted.now = late
		all = append(all, accepted)
	}
	return all
}

// leaves reports whether a settlement by owner and epoch takes the record to
// another state; of resolutions, those of a record that is no claim.
func (s state) leaves(op *Operation) bool {
	switch {
	case op.Resolves:
		return s.kind == dedupe.Unknown && op.To != dedupe.Unknown
	case s.kind == dedupe.Claimed:
		return op.To != dedupe.Unknown || s.effect == tool.NonIdempotent
	default:
		return s.kind != dedupe.Done && op.To == dedupe.Done
	}
}

func (s state) renew(op *Operation, now span) []outcome {
	if s.kind != dedupe.Claimed || s.owner != op.Owner || s.epoch != op.Epoch {
		return []outcome{{next: s, now: now}}
	}
	return []outcome{{next: s, ok: true, now: now, leases: true, changes: true, retention: s.retention}}
}

// restore: an owner says that its claim was forgotten.
func (s state) restore(op *Operation, now span) []outcome {
	if s.kind != dedupe.Absent {
		return []outcome{{next: s, now: now}}
	}
	back := state{
		kind: dedupe.Claimed, epoch: op.Epoch, owner: op.Owner, content: op.Content, effect: op.Effect, clock: s.clock,
		started: exactly(op.Started),
	}
	o := outcome{next: back, ok: true, now: now, changes: true, retention: op.Retention}
	if op.Effect == tool.NonIdempotent {
		o.next.kind, o.finishes = dedupe.Unknown, true
	} else {
		o.leases = true
	}
	return []outcome{o}
}

func (s state) lookup(now span) (all []outcome) {
	if s.kind != dedupe.Claimed {
		return []outcome{{next: s, now: now}}
	}
	if early, end := now.before(s.lease); !early.empty() && !end.empty() {
		running := s
		running.lease = end
		all = append(all, outcome{next: running, now: early})
	}
	if late, end := now.notBefore(s.lease); !late.empty() && !end.empty() {
		out, seen := s, s
		out.lease = end
		seen.kind, seen.finished, seen.lease = dedupe.Unknown, end, span{}
		if s.effect != tool.NonIdempotent {
			seen.kind = dedupe.NotRun
		}
		all = append(all, outcome{next: out, told: &seen, now: late})
	}
	return all
}

// reopen: whoever held a claim is gone.
func (s state) reopen(now span) []outcome {
	if s.kind != dedupe.Claimed {
		return []outcome{{next: s, now: now}}
	}
	o := outcome{next: s, now: now, changes: true, retention: s.retention}
	if s.effect == tool.NonIdempotent {
		o.next.kind, o.next.lease, o.finishes = dedupe.Unknown, span{}, true
	} else {
		o.leases = true // for no time at all
	}
	return []outcome{o}
}

// heard returns the record after the outcome, narrowed by the answer; false
// when the answer is another one.
func (o outcome) heard(op timed) (state, bool) {
	next, now, same := o.next, o.now, true
	switch {
	case !op.Heard || op.Kind == Reopen:
	case op.Kind == Settle || op.Kind == Renew:
		same = op.OK == o.ok
	case op.Kind == Restore && op.OK != o.ok:
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
		now = now.and(next.lease.plus(-op.Lease))
	}
	if o.finishes {
		next.finished = exactly(r.Finished)
		now = now.and(next.finished)
	}
	next, ok := next.tells(r)
	return next, now, ok
}

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
		next.lease = now.plus(op.Lease)
	}
	if o.finishes {
		next.finished = now
	}
	next.clock, next.retention = now.from, o.retention
	next.forgotten = op.now.plus(o.retention)
	return next, true
}

// tells compares a record with one that was told, and narrows its instants.
func (s state) tells(r Record) (state, bool) {
	if s.kind == dedupe.Absent {
		return s, r == Record{}
	}
	if r.State != s.kind || r.Epoch != s.epoch || r.Owner != s.owner || r.Content != s.content ||
		r.Effect != s.effect || r.Attempts != s.attempts || r.Result != s.result {
		return s, false
	}
	s.started = s.started.and(exactly(r.Started))
	s.finished = s.finished.and(exactly(r.Finished))
	s.lease = s.lease.and(exactly(r.Lease))
	return s, !s.started.empty() && !s.finished.empty() && !s.lease.empty()
}

// String describes the record for a picture of a history.
func (s state) String() string {
	return Record{
		State: s.kind, Epoch: s.epoch, Owner: s.owner, Content: s.content, Effect: s.effect, Attempts: s.attempts,
		Result: s.result, Started: s.started.from, Finished: s.finished.from, Lease: s.lease.from,
	}.String()
}
