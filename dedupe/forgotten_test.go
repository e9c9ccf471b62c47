package dedupe_test

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// What a settlement that carries its claim makes of a record that is no longer the
// claim's, row by row.
func TestASettlementWithItsClaim(t *testing.T) {
	now := time.Unix(1000, 0)
	claim := dedupe.Record{State: dedupe.Claimed, Owner: "alice", Epoch: 2, Tool: "refund", Effect: tool.NonIdempotent, StartedAt: now}
	is := func(state dedupe.State, owner string, epoch int64) dedupe.Record {
		r := claim
		r.State, r.Owner, r.Epoch, r.FinishedAt = state, owner, epoch, now
		return r
	}
	other := func(r dedupe.Record) dedupe.Record { r.Fingerprint = [32]byte{9}; return r }
	lost := is(dedupe.Claimed, "bob", 3)
	lost.LeaseUntil, lost.Effect = now.Add(-time.Second), tool.Keyed
	for name, c := range map[string]struct {
		record  dedupe.Record
		state   dedupe.State
		verdict dedupe.SettleVerdict
		want    dedupe.State
		epoch   int64
	}{
		"forgotten, done":                         {dedupe.Record{}, dedupe.Done, dedupe.SettledAnew, dedupe.Done, 2},
		"forgotten, unknown":                      {dedupe.Record{}, dedupe.Unknown, dedupe.SettledAnew, dedupe.Unknown, 2},
		"forgotten, not run":                      {dedupe.Record{}, dedupe.NotRun, dedupe.Settled, dedupe.Absent, 0},
		"not run by another since, done":          {is(dedupe.NotRun, "bob", 1), dedupe.Done, dedupe.SettledAnew, dedupe.Done, 2},
		"not run by a later one, done":            {is(dedupe.NotRun, "bob", 3), dedupe.Done, dedupe.Settled, dedupe.Done, 4},
		"lost by a later one, done":               {lost, dedupe.Done, dedupe.Settled, dedupe.Done, 4},
		"not run by another since, unknown":       {is(dedupe.NotRun, "bob", 2), dedupe.Unknown, dedupe.SettledAnew, dedupe.Unknown, 3},
		"not run by a later one, unknown":         {is(dedupe.NotRun, "bob", 3), dedupe.Unknown, dedupe.Superseded, dedupe.NotRun, 3},
		"not run by another since, not run":       {is(dedupe.NotRun, "bob", 1), dedupe.NotRun, dedupe.Superseded, dedupe.NotRun, 1},
		"something else not run by another, done": {other(is(dedupe.NotRun, "bob", 1)), dedupe.Done, dedupe.Superseded, dedupe.NotRun, 1},
		"found unknown, not run":                  {is(dedupe.Unknown, "alice", 2), dedupe.NotRun, dedupe.Settled, dedupe.NotRun, 2},
		"another's unknown, not run":              {is(dedupe.Unknown, "bob", 3), dedupe.NotRun, dedupe.Superseded, dedupe.Unknown, 3},
		"another's unknown, done":                 {is(dedupe.Unknown, "bob", 3), dedupe.Done, dedupe.Superseded, dedupe.Unknown, 3},
		"run by another, done":                    {is(dedupe.Claimed, "bob", 1), dedupe.Done, dedupe.Superseded, dedupe.Claimed, 1},
		"done by another, done":                   {is(dedupe.Done, "bob", 1), dedupe.Done, dedupe.Superseded, dedupe.Done, 1},
		"answered in its conversation, done":      {is(dedupe.Closed, "alice", 2), dedupe.Done, dedupe.Superseded, dedupe.Closed, 2},
		"answered in its conversation, not run":   {is(dedupe.Closed, "alice", 2), dedupe.NotRun, dedupe.Superseded, dedupe.Closed, 2},
		"done by an operator, not run":            {is(dedupe.Done, "alice", 2), dedupe.NotRun, dedupe.Superseded, dedupe.Done, 2},
		"as it was claimed":                       {is(dedupe.Claimed, "alice", 2), dedupe.Done, dedupe.Settled, dedupe.Done, 2},
	} {
		s := dedupe.Settlement{Owner: "alice", Epoch: 2, State: c.state, Attempts: 1, Result: []byte("paid"), Claim: &dedupe.Origin{Record: claim}}
		next, verdict, _ := c.record.Settle(s, now)
		if verdict != c.verdict || next.State != c.want || next.Epoch != c.epoch {
			t.Errorf("%s: %v, %v at epoch %d", name, verdict, next.State, next.Epoch)
			continue
		}
		// Said again, because its answer was not heard, it changes nothing.
		if again, verdict, changed := next.Settle(s, now); (verdict == dedupe.Superseded) != (c.verdict == dedupe.Superseded) ||
			verdict == dedupe.SettledAnew || changed || again.State != next.State {
			t.Errorf("%s: said again: %v, changed %t, %v", name, verdict, changed, again.State)
		}
		s.Claim = nil
		if _, plain, _ := c.record.Settle(s, now); plain == dedupe.SettledAnew {
			t.Errorf("%s: without its claim: %v", name, plain)
		}
	}
}

// A call that could be repeated was sent, and is asked for again as one of a tool that must
// not be: nobody knows. That its owner says once more, because its answer was not heard, that
// it may be repeated is no proof that it did not run.
func TestASettlementOfACallThatIsDeclaredAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	claim := dedupe.Record{State: dedupe.Claimed, Owner: "alice", Epoch: 1, Tool: "refund", Effect: tool.Keyed, StartedAt: now}
	end := dedupe.Settlement{Owner: "alice", Epoch: 1, State: dedupe.NotRun, Attempts: 1, Claim: &dedupe.Origin{Record: claim}}
	sent, _, _ := claim.Settle(end, now)
	unknown, verdict, _ := sent.Admit(dedupe.Request{Tool: "refund", Effect: tool.NonIdempotent, Owner: "bob"}, now)
	if verdict != dedupe.OutcomeUnknown {
		t.Fatalf("asked for as what must not be repeated: %v", verdict)
	}
	if next, verdict, changed := unknown.Settle(end, now); verdict != dedupe.Superseded || changed {
		t.Errorf("%v, %v: %v", verdict, next.State, next.Fate(tool.NonIdempotent))
	}
}
