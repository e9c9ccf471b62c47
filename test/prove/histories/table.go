package histories

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// respond is the table of model.go: what an operation may do to a record.
func (s state) respond(op *Operation, now span) []outcome {
	switch op.Kind {
	case Admit:
		if op.Only {
			return s.mayRun(s.admit(op, now))
		}
		return s.admit(op, now)
	case Settle:
		return s.settle(op, now)
	case Renew:
		return s.renew(op, now)
	case Lookup:
		return s.lookup(now)
	case Close:
		return s.close(op, now)
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
		return []outcome{s.begins(op, now)}
	case s.kind == dedupe.Closed:
		return stays(dedupe.Replay)
	case s.content != op.Content:
		return stays(dedupe.Mismatch)
	case s.kind == dedupe.Done:
		return stays(dedupe.Replay)
	case s.kind == dedupe.Unknown:
		return stays(dedupe.OutcomeUnknown)
	case s.kind == dedupe.NotRun && s.owner == op.Owner:
		return stays(dedupe.InFlight)
	case s.kind == dedupe.Held && s.owner == op.Owner:
		return stays(dedupe.AwaitsApproval)
	case (s.kind == dedupe.NotRun || s.kind == dedupe.Held) && s.effect != tool.NonIdempotent && op.Effect == tool.NonIdempotent && s.attempts+int(s.epoch) > 1:
		return []outcome{s.doubted(op, now)}
	case s.kind == dedupe.NotRun:
		return []outcome{s.begins(op, now)}
	case s.kind == dedupe.Held:
		return s.awaits(op, now)
	case s.owner == op.Owner:
		return []outcome{{next: s, verdict: dedupe.Won, now: now, leases: true, changes: true, retention: op.Retention}}
	default:
		return s.contested(op, now)
	}
}

// judged is by when a lease is taken for running.
func judged(op *Operation, now span) span { return span{now.from - op.behind, now.to} }

// contested: another asks for a claimed call.
func (s state) contested(op *Operation, now span) (all []outcome) {
	late, end := now.notBefore(s.lease)
	if decides(op.Owner, s.owner) {
		late, end = now, s.lease // its owner is gone, whatever its lease
	} else if early, end := judged(op, now).before(s.lease); !early.empty() && !end.empty() {
		running := s
		running.lease = end
		all = append(all, outcome{next: running, verdict: dedupe.InFlight, now: early})
	}
	if late.empty() || end.empty() {
		return all
	}
	if s.effect != tool.NonIdempotent && op.Effect != tool.NonIdempotent {
		if !decides(op.Owner, s.owner) {
			return append(all, s.lost(op, late, end, false))
		}
		// That the lease was running may be judged a little before the change that comes of it: see
		// dedupe.Rows.Now.
		if early, until := judged(op, now).before(s.lease); !early.empty() && !until.empty() {
			all = append(all, s.lost(op, now, span{}, true))
		}
		if late, end := now.notBefore(s.lease); !late.empty() && !end.empty() {
			all = append(all, s.lost(op, late, end, false))
		}
		return all
	}
	lost := s
	lost.kind, lost.lease = dedupe.Unknown, span{}
	return append(all, outcome{
		next: lost, verdict: dedupe.OutcomeUnknown, now: late, finishes: true, changes: true, retention: op.Retention,
	})
}

// doubted: that it did not run was said of a call that could be repeated.
func (s state) doubted(op *Operation, now span) outcome {
	s.kind, s.effect, s.attempts, s.result, s.lease, s.ttl = dedupe.Unknown, op.Effect, max(s.attempts, 1), "", span{}, 0
	return outcome{next: s, verdict: dedupe.OutcomeUnknown, now: now, finishes: true, changes: true, retention: op.Retention}
}

func (s state) claimed(op *Operation, now span) outcome {
	claim := state{
		kind: dedupe.Claimed, epoch: s.epoch + 1, owner: op.Owner, content: op.Content, effect: op.Effect, clock: s.clock,
		approval: s.approval,
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
	case s.kind == op.To && !(s.kind == dedupe.Held && op.Resolves) && (s.kind != dedupe.Unknown || s.result != "" || op.Result == ""):
		refused.ok = s.kind != dedupe.Done || s.result == op.Result
		return []outcome{refused}
	}
	settled := s
	settled.kind, settled.lease, settled.attempts, settled.result, settled.ttl = op.To, span{}, op.Attempts, op.Result, 0
	accepted := outcome{next: settled, ok: true, now: now, finishes: true, changes: true, retention: op.Retention}
	if op.To == dedupe.Held {
		accepted.next.approval, accepted.next.ttl, accepted.next.finished = "", op.Hold, span{}
		accepted.finishes, accepted.starts, accepted.leases, accepted.lasts = false, true, true, op.Hold
	}
	if op.Resolves && s.kind == dedupe.Held {
		return s.decided(op, refused, accepted)
	}
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
	if s.effect != tool.NonIdempotent || op.To == dedupe.Unknown || op.To == dedupe.Held {
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
		return s.kind == dedupe.Unknown && (op.To == dedupe.Done || op.To == dedupe.NotRun)
	case s.kind == dedupe.Claimed:
		return op.To != dedupe.Unknown || s.effect == tool.NonIdempotent
	case s.kind == dedupe.Unknown && op.To == dedupe.NotRun:
		// Nobody has heard of the claim, and nothing was sent before it.
		return op.Epoch == 0 && s.attempts == 0 && (s.epoch == 1 || s.effect == tool.NonIdempotent)
	default:
		return s.kind != dedupe.Done && s.kind != dedupe.Closed && s.kind != dedupe.Held && op.To == dedupe.Done
	}
}

// renew: an owner says that it has the claim, which may be forgotten.
func (s state) renew(op *Operation, now span) []outcome {
	switch {
	case s.kind == dedupe.Claimed && s.owner == op.Owner && s.epoch == op.Epoch:
		return []outcome{{next: s, now: now, leases: true, changes: true, retention: s.retention}}
	case s.kind != dedupe.Absent:
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
	if s.kind != dedupe.Claimed && s.kind != dedupe.Held {
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
		switch {
		case s.kind == dedupe.Held:
			seen = s.lapses(end)
		case s.effect != tool.NonIdempotent:
			seen.kind = dedupe.NotRun
		}
		all = append(all, outcome{next: out, told: &seen, now: late})
	}
	return all
}

// noContent is that of a call of which nobody has asked for anything: see contentOf.
const noContent = 255

// close: a conversation answers the call. That it is refused says nothing: another append
// may have come before it.
func (s state) close(op *Operation, now span) []outcome {
	all := []outcome{{next: s, now: now}}
	next, looked := s, exactly(op.Started)
	if op.Started == 0 { // whoever looked is dead
		looked = span{0, now.to}
	}
	switch s.kind {
	case dedupe.Closed:
		if s.result == op.Result { // sent before
			all = append(all, outcome{next: s, ok: true, now: now})
		}
		return all
	case dedupe.Absent:
		next = state{epoch: 1, owner: "conversation", content: noContent, started: looked, clock: s.clock}
	case dedupe.NotRun:
	case dedupe.Held:
		return append(all, s.closeHeld(op, now, looked)...)
	case dedupe.Done, dedupe.Unknown:
		return all
	case dedupe.Claimed:
		late, end := now.notBefore(s.lease)
		if s.effect == tool.NonIdempotent || late.empty() || end.empty() {
			return all
		}
		now, next.attempts = late, 1
	}
	next.kind, next.result, next.lease, next.finished = dedupe.Closed, op.Result, span{}, looked
	return append(all, outcome{next: next, ok: true, now: now, changes: true, retention: op.Retention})
}

// closeHeld: a conversation answers a held call. What was allowed is forgotten with a hold that was
// over when it was looked at.
func (s state) closeHeld(op *Operation, now, looked span) (all []outcome) {
	closed := s
	closed.kind, closed.result, closed.lease, closed.ttl = dedupe.Closed, op.Result, span{}, 0
	if early, end := looked.before(s.lease); !early.empty() && !end.empty() {
		closed.finished = early
		all = append(all, outcome{next: closed, ok: true, now: now, changes: true, retention: op.Retention})
	}
	if late, end := looked.notBefore(s.lease); !late.empty() && !end.empty() {
		closed.finished, closed.approval = late, ""
		all = append(all, outcome{next: closed, ok: true, now: now, changes: true, retention: op.Retention})
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
