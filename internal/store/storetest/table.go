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

// from is a state that a record is brought into, by alice, at epoch 1.
type from struct {
	name    string
	claimed bool
	settled dedupe.State // Absent: left claimed
	unsent  bool         // settled without an attempt
	expired bool
	closed  bool
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
}

// action is something that is then done to it.
type action struct {
	name string
	do   func(s *suite, id string, effect tool.Effect) any
	// model does the same to a record of the state machine.
	model func(r dedupe.Record, id string, effect tool.Effect, now time.Time) (dedupe.Record, any)
}

func actions() []action {
	var all []action
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
	} {
		all = append(all, asked(change.name, func(id string, effect tool.Effect) dedupe.Request {
			req := request(id, change.owner, effect, long)
			change.do(&req)
			return req
		}))
	}
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
	return append(all, settledWithAnotherResult(), answered())
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
			return seen.Record.Refused() && s.answer(closing(id, seen))
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
			if tr.from.expired {
				return s.lookup(key(tr.id)).State != dedupe.Claimed
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
	var record dedupe.Record
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
		s.settle(end)
		record, _, _ = record.Settle(end, now)
	}
	return record
}
