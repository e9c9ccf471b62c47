package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

func isInvalid(err error) bool { return errors.Is(err, dedupe.ErrInvalid) }
func isClosed(err error) bool  { return errors.Is(err, dedupe.ErrClosed) }

var effects = []tool.Effect{tool.NonIdempotent, tool.ReadOnly, tool.Idempotent, tool.Keyed}

// from is a state that a record is brought into, by alice, at epoch 1, or 0 where it is held.
type from struct {
	name    string
	claimed bool
	settled dedupe.State // Absent: left claimed
	unsent  bool         // settled without an attempt
	expired bool
	closed  bool
	held    bool // alice is told to ask a person, who may allow it; over: for a short time only
	allowed bool // of a claim: a person has allowed it before
	over    bool
}

var froms = []from{
	{name: "absent"},
	{name: "claimed", claimed: true},
	{name: "expired", claimed: true, expired: true},
	{name: "done", claimed: true, settled: dedupe.Done},
	{name: "not_run", claimed: true, settled: dedupe.NotRun},
	{name: "not_run, unsent", claimed: true, settled: dedupe.NotRun, unsent: true},
	{name: "unknown", claimed: true, settled: dedupe.Unknown},
	{name: "absent, closed", closed: true},
	{name: "expired, closed", claimed: true, expired: true, closed: true},
	{name: "not_run, closed", claimed: true, settled: dedupe.NotRun, closed: true},
	{name: "held", held: true},
	{name: "held, allowed", held: true, allowed: true},
	{name: "held, over", held: true, over: true},
	{name: "held, allowed, over", held: true, allowed: true, over: true},
	{name: "held, allowed, closed", held: true, allowed: true, closed: true},
	{name: "claimed, held", claimed: true, settled: dedupe.Held},
	{name: "allowed, claimed", claimed: true, allowed: true},
	{name: "allowed, expired", claimed: true, allowed: true, expired: true},
	{name: "allowed, not_run", claimed: true, allowed: true, settled: dedupe.NotRun},
}

// action is something that is then done to it.
type action struct {
	name string
	do   func(s *suite, id string, effect tool.Effect) any
	// model does the same to a record of the state machine.
	model func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any)
}

func actions() []action {
	return append(requests(), settlements()...)
}

// requests are those of two owners, as the first one was and otherwise.
func requests() (all []action) {
	for _, change := range []struct {
		name, owner string
		do          func(*dedupe.Request)
	}{
		{"asked by its owner", "alice", func(*dedupe.Request) {}},
		{"asked by another", "bob", func(*dedupe.Request) {}},
		{"asked with other arguments", "bob", func(r *dedupe.Request) { r.Fingerprint = [32]byte{9} }},
		{"asked for another tool", "bob", func(r *dedupe.Request) { r.Tool = "charge" }},
		{"asked as non_idempotent", "bob", func(r *dedupe.Request) { r.Effect = tool.NonIdempotent }},
		{"asked as idempotent", "bob", func(r *dedupe.Request) { r.Effect = tool.Idempotent }},
		{"asked by its owner with other arguments", "alice", func(r *dedupe.Request) { r.Fingerprint = [32]byte{9} }},
		{"asked by its owner, to be held", "alice", func(r *dedupe.Request) { r.Hold = hold(long) }},
		{"asked by another, to be held", "bob", func(r *dedupe.Request) { r.Hold = hold(long) }},
		{"asked by another, to stay held", "bob", func(r *dedupe.Request) { r.Hold = hold(long); r.Hold.Standing = true }},
		{"asked by another, to stay held, and not run", "bob", func(r *dedupe.Request) { r.Hold, r.HoldOnly = hold(long), true; r.Hold.Standing = true }},
		{"asked by another, to be held, and not run", "bob", func(r *dedupe.Request) { r.Hold, r.HoldOnly = hold(long), true }},
		{"asked by another, and not run", "bob", func(r *dedupe.Request) { r.HoldOnly = true }},
		{"asked with other arguments, to be held", "bob", func(r *dedupe.Request) { r.Hold, r.Fingerprint = hold(long), [32]byte{9} }},
		{"asked as non_idempotent, to be held", "bob", func(r *dedupe.Request) { r.Hold, r.Effect = hold(long), tool.NonIdempotent }},
	} {
		all = append(all, asked(change.name, func(id string, effect tool.Effect) dedupe.Request {
			req := request(id, change.owner, effect, long)
			change.do(&req)
			return req
		}))
	}
	return all
}

// settlements are what may be said of a claim, by its owner and by others, in time and late.
func settlements() (all []action) {
	for _, owner := range []string{"alice", "bob"} {
		for _, epoch := range []int64{0, 1, 2} {
			for _, state := range []dedupe.State{dedupe.Done, dedupe.NotRun, dedupe.Unknown} {
				if epoch > 0 || state == dedupe.NotRun {
					all = append(all, settledBy(owner, epoch, state))
				}
			}
			if epoch > 0 {
				all = append(all, renewedBy(owner, epoch))
			}
		}
	}
	return append(all, decisions()...)
}

// decisions are what others than its owner may say of a claim, or its owner when it is late.
func decisions() (all []action) {
	for _, epoch := range []int64{1, 2} {
		for _, state := range []dedupe.State{dedupe.Done, dedupe.NotRun} {
			all = append(all, resolvedAs(state, epoch))
		}
	}
	for _, owner := range []string{"alice", "carol"} {
		for _, epoch := range []int64{1, 3} {
			for _, state := range []dedupe.State{dedupe.Done, dedupe.NotRun, dedupe.Unknown} {
				all = append(all, settledLate(owner, epoch, state))
			}
		}
	}
	for _, owner := range []string{"alice", "bob"} {
		for _, epoch := range []int64{0, 1} {
			all = append(all, decidedAs(owner, epoch, dedupe.Held), decidedAs(owner, epoch, dedupe.Done))
		}
		all = append(all, settles("held by "+owner, func(id string) dedupe.Settlement { return holds(id, owner) }))
	}
	return append(all, heldLate(), settledWithAnotherResult(), answered())
}

func hold(how time.Duration) *dedupe.Hold { return &dedupe.Hold{For: how, Result: []byte("ask")} }

// holds is the settlement of a claim by its owner, who asks a person.
func holds(id, owner string) dedupe.Settlement {
	s := settlement(id, owner, 1, dedupe.Held)
	s.Attempts, s.HoldFor = 0, long
	return s
}

// decision is a person's of a held call: as Held it is allowed, as Done denied.
func decision(id, owner string, epoch int64, as dedupe.State) dedupe.Settlement {
	s := settlement(id, owner, epoch, as)
	if s.Attempts, s.Resolves = 0, true; as == dedupe.Held {
		s.Approval = []byte("ada: looked")
	}
	return s
}

func decidedAs(owner string, epoch int64, as dedupe.State) action {
	return settles(fmt.Sprintf("a person says %v of %s at epoch %d", as, owner, epoch),
		func(id string) dedupe.Settlement { return decision(id, owner, epoch, as) })
}

// heldLate is a settlement as held with the claim that it ends.
func heldLate() action {
	build := func(id string, effect tool.Effect) dedupe.Settlement { return late(holds(id, "carol"), effect) }
	return action{
		name: "held late by carol",
		do:   func(s *suite, id string, effect tool.Effect) any { return s.settle(build(id, effect)) },
		model: func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any) {
			next, verdict, _ := r.Settle(build(id, effect), now)
			return next, verdict
		},
	}
}

// settledLate is a settlement with the claim that it ends.
func settledLate(owner string, epoch int64, state dedupe.State) action {
	build := func(id string, effect tool.Effect) dedupe.Settlement {
		s := late(settlement(id, owner, epoch, state), effect)
		if state == dedupe.Unknown && effect.Repeatable() {
			s.State = dedupe.NotRun
		}
		return s
	}
	return action{
		name: fmt.Sprintf("settled late %v by %s at epoch %d", state, owner, epoch),
		do:   func(s *suite, id string, effect tool.Effect) any { return s.settle(build(id, effect)) },
		model: func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any) {
			next, verdict, _ := r.Settle(build(id, effect), now)
			return next, verdict
		},
	}
}

// answered is a call that its conversation answers, if it still can be.
func answered() action {
	return action{
		name: "answered in its conversation",
		do: func(s *suite, id string, _ tool.Effect) any {
			seen := s.see(key(id))
			return seen.Record.State.Refused() && s.answer(closing(id, seen))
		},
		model: func(r dedupe.Record, id string, _ tool.Effect, now time.Time) (dedupe.Record, any) {
			c := closing(id, dedupe.Known{Record: r.Observed(now), Now: now})
			next, err := c.Close()
			if err != nil {
				return r, false
			}
			return next, true
		},
	}
}

func resolvedAs(state dedupe.State, epoch int64) action {
	return settles(fmt.Sprintf("resolved as %v at epoch %d", state, epoch), func(id string) dedupe.Settlement {
		s := settlement(id, "alice", epoch, state)
		s.Resolves = true
		return s
	})
}

func asked(name string, build func(id string, effect tool.Effect) dedupe.Request) action {
	return action{
		name: name,
		do: func(s *suite, id string, effect tool.Effect) any {
			return s.admit(build(id, effect)).Verdict
		},
		model: func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any) {
			next, verdict, _ := r.Admit(build(id, effect), now)
			return next, verdict
		},
	}
}

func settledBy(owner string, epoch int64, state dedupe.State) action {
	return settles(fmt.Sprintf("settled %v by %s at epoch %d", state, owner, epoch),
		func(id string) dedupe.Settlement { return settlement(id, owner, epoch, state) })
}

func settledWithAnotherResult() action {
	return settles("settled done with another result", func(id string) dedupe.Settlement {
		s := settlement(id, "alice", 1, dedupe.Done)
		s.Result = []byte("another")
		return s
	})
}

func settles(name string, build func(id string) dedupe.Settlement) action {
	return action{
		name: name,
		do:   func(s *suite, id string, _ tool.Effect) any { return s.settle(build(id)) },
		model: func(r dedupe.Record, id string, _ tool.Effect, now time.Time) (dedupe.Record, any) {
			next, verdict, _ := r.Settle(build(id), now)
			return next, verdict
		},
	}
}

func renewedBy(owner string, epoch int64) action {
	return action{
		name: fmt.Sprintf("renewed by %s at epoch %d", owner, epoch),
		do: func(s *suite, id string, effect tool.Effect) any {
			_, restored := s.restore(renews(id, owner, epoch, effect))
			return restored
		},
		model: func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any) {
			renewal := renews(id, owner, epoch, effect)
			next, _ := r.Renew(&renewal, now)
			return next, r.State == dedupe.Absent
		},
	}
}

// everyRow does every action to a record in every state and of every effect,
// and compares answer and record with the state machine's.
func everyRow(s *suite) {
	type trial struct {
		id     string
		from   from
		effect tool.Effect
		action action
		record dedupe.Record
	}
	begun := time.Now()
	var trials []trial
	for _, f := range froms {
		for _, effect := range effects {
			for _, a := range actions() {
				id := fmt.Sprintf("%s, %v, %s", f.name, effect, a.name)
				trials = append(trials, trial{id, f, effect, a, s.bring(id, f, effect, begun)})
			}
		}
	}
	s.await("the short leases run out", func() bool {
		// The last one brought is the last one to run out.
		for _, tr := range slices.Backward(trials) {
			if tr.from.expired || tr.from.over {
				state := s.lookup(key(tr.id)).State
				return state != dedupe.Claimed && state != dedupe.Held
			}
		}
		return true
	})
	now := begun.Add(long / 2) // long leases run, short ones are over
	for i := range trials {
		if tr := &trials[i]; tr.from.closed {
			tr.record = s.close(tr.id, tr.effect, tr.record, now)
		}
	}
	for _, tr := range trials {
		got := tr.action.do(s, tr.id, tr.effect)
		next, want := tr.action.model(tr.record, tr.id, tr.effect, now)
		if got != want {
			s.Errorf("%s: got %v, want %v", tr.id, got, want)
		}
		if diff := sameRecord(next.Observed(now), s.lookup(key(tr.id))); diff != "" {
			s.Errorf("%s: the record differs (-want +got):\n%s", tr.id, diff)
		}
	}
}

// close answers a call in its conversation, if it still can be, and returns what its
// record should be.
func (s *suite) close(id string, effect tool.Effect, record dedupe.Record, now time.Time) dedupe.Record {
	s.Helper()
	next, want := answered().model(record, id, effect, now)
	if got := answered().do(s, id, effect); got != want {
		s.Errorf("%s: closed %v, want %v", id, got, want)
	}
	return next
}

// bring brings a record of the store into a state, and returns what it should
// be.
func (s *suite) bring(id string, f from, effect tool.Effect, now time.Time) dedupe.Record {
	s.Helper()
	now = now.Truncate(time.Millisecond) // as every store has it: its lease ends no earlier
	var record dedupe.Record
	if f.held || f.allowed {
		record = s.ask(id, f, effect, now)
	}
	if !f.claimed {
		return record
	}
	lease := long
	if f.expired {
		lease = s.lease
	}
	claim := request(id, "alice", effect, lease)
	s.wantVerdict(s.admit(claim), dedupe.Won)
	record, _, _ = record.Admit(claim, now)
	if f.settled != dedupe.Absent {
		end := settlement(id, "alice", 1, f.settled)
		if f.unsent {
			end.Attempts = 0
		}
		if f.settled == dedupe.Held {
			end = holds(id, "alice")
		}
		s.settle(end)
		record, _, _ = record.Settle(end, now)
	}
	return record
}

// ask holds a call, as alice or whoever asked before her, and lets a person allow it.
func (s *suite) ask(id string, f from, effect tool.Effect, now time.Time) dedupe.Record {
	s.Helper()
	owner, how := "zoe", long
	if f.held {
		owner = "alice"
	}
	if f.over {
		how = s.lease
	}
	asks := request(id, owner, effect, long)
	asks.Hold = hold(how)
	s.wantVerdict(s.admit(asks), dedupe.AwaitsApproval)
	record, _, _ := dedupe.Record{}.Admit(asks, now)
	if f.allowed {
		allows := decision(id, owner, 0, dedupe.Held)
		s.settle(allows)
		record, _, _ = record.Settle(allows, now)
	}
	return record
}
