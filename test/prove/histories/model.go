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
//	HELD                                    admit by its owner       awaits approval, record unchanged
//	HELD, approved                          admit by another         won, epoch+1
//	HELD                                    admit that asks          awaits approval, record unchanged
//	HELD, over, approved or not             admit that asks          held anew: as asked for, same epoch
//	HELD                                    admit that does not ask  won, epoch+1
//	HELD, over                              admit that keeps a hold  won, epoch+1
//	any of which it says won                admit that only asks     may run, record unchanged; it is told as by lookup
//	HELD                                    approve, owner+epoch     HELD, approved, until as long from now
//	HELD                                    deny, owner+epoch        DONE
//	HELD, over                              approve, deny            refused, record unchanged
//	DONE                                    admit                    replay, the result byte for byte
//	CLAIMED                                 renew by owner+epoch     lease from now, out or not
//	CLAIMED                                 settle by owner+epoch    DONE, NOT_RUN, HELD; UNKNOWN if non_idempotent
//	UNKNOWN, NOT_RUN²                       settle by owner+epoch    DONE
//	UNKNOWN, or CLAIMED with its lease
//	out and non_idempotent                  resolve, owner+epoch     DONE, NOT_RUN
//	the state it has already³               settle by owner+epoch    settled, record unchanged
//	any other                               settle, resolve          refused, record unchanged
//	any                                     lookup                   the record; a claim with its lease out as
//	                                                                 UNKNOWN, NOT_RUN if its effect may repeat
//	absent, forgotten                       renew                    CLAIMED, lease from now; UNKNOWN if
//	                                                                 non_idempotent; owner and epoch as said
//	any other                               renew                    told, record unchanged
//	CLAIMED                                 reopen (embedded)        UNKNOWN if non_idempotent, else lease out⁴
//
// ¹ by the record or by the request. ² a resolution was wrong, the owner knows
// better. ³ DONE only with the same result; an UNKNOWN that has none takes that of
// its owner, and is stored anew. ⁴ even when its retention is over and
// nobody saw it any more: remembering longer breaks no promise. Epoch 0 stands
// for any epoch in a settlement as NOT_RUN.
//
// Wherever it says won, an admit that asks is told to await an approval, and the record is HELD, at
// the same epoch, unless the call was approved: a claim keeps that, and what it becomes. A hold that
// is over is told as NOT_RUN. What counts of HELD for attempts before it is as of NOT_RUN.
//
// Hence: DONE never changes; an epoch has one owner, and each claim adds one to
// it; a running lease is never taken but by a later incarnation of its owner; an
// expired claim of a non_idempotent call is claimed again only after somebody said
// NOT_RUN; nothing is forgotten before its retention is over. Every field of a
// record that is told is compared.
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
	"hash/maphash"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
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
	approval string
	ttl      time.Duration // of a hold

	started, finished, lease span

	retention time.Duration
	forgotten span // when its retention is over
	// clock is the least that the store's clock can be when it changes this
	// record again.
	clock int64
	// over says that everything that was answered has its place in the order.
	over bool
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

// tells compares a record with one that was told, and narrows its instants.
func (s state) tells(r Record) (state, bool) {
	if s.kind == dedupe.Absent {
		return s, r == Record{}
	}
	if r.State != s.kind || r.Epoch != s.epoch || r.Owner != s.owner || r.Content != s.content ||
		r.Effect != s.effect || r.Attempts != s.attempts || r.Result != s.result || r.Approval != s.approval {
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
		Result: s.result, Approval: s.approval, Started: s.started.from, Finished: s.finished.from, Lease: s.lease.from,
	}.String()
}
