package dedupe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

// only asks whether a person has to be asked.
func only(req Request) Request {
	req.HoldOnly = true
	return req
}

// Who only asks whether a person has to be asked holds the call where that is so, and claims
// nothing where it is not.
func TestAdmitOfWhoOnlyAsks(t *testing.T) {
	t.Parallel()
	non, keyed := tool.NonIdempotent, tool.Keyed
	otherArguments := only(waits("bob", non))
	otherArguments.Fingerprint = [32]byte{8}
	for _, c := range []struct {
		name    string
		record  Record
		request Request
		now     time.Time
		verdict Verdict
		state   State
		changed bool
	}{
		{"nobody has asked yet", Record{}, only(waits("bob", non)), live, AwaitsApproval, Held, true},
		{"it is held already", heldBy(non), only(waits("bob", non)), live, AwaitsApproval, Held, false},
		{"it is allowed", allowed(heldBy(non)), only(waits("bob", non)), live, MayRun, Held, false},
		{"it was allowed, and that is over", allowed(heldBy(non)), only(waits("bob", non)), lapsed, AwaitsApproval, Held, true},
		{"nobody has to be asked", Record{}, only(asks("bob", non)), live, MayRun, Absent, false},
		{"nobody has to be asked any more", heldBy(non), only(asks("bob", non)), live, MayRun, Held, false},
		{"whether it is to be held is known later", Record{}, only(keepsHeld("bob")), live, MayRun, Absent, false},
		{"and it is held already", heldBy(non), only(keepsHeld("bob")), live, AwaitsApproval, Held, false},
		{"and that is over", heldBy(non), only(keepsHeld("bob")), lapsed, MayRun, Held, false},
		{"it did not run, and was allowed", allowed(settled(non, NotRun)), only(waits("bob", non)), live, MayRun, NotRun, false},
		{"it did not run", settled(non, NotRun), only(waits("bob", non)), live, AwaitsApproval, Held, true},
		{"it runs", claimed(non), only(waits("bob", non)), live, InFlight, Claimed, false},
		{"its owner is gone, and it may run again", claimed(keyed), only(asks("bob", keyed)), lapsed, MayRun, Claimed, false},
		{"its owner is gone, and it must not", claimed(non), only(asks("bob", non)), lapsed, OutcomeUnknown, Unknown, true},
		{"it is done", settled(non, Done), only(waits("bob", non)), live, Replay, Done, false},
		{"it is unknown", settled(non, Unknown), only(waits("bob", non)), live, OutcomeUnknown, Unknown, false},
		{"other arguments", allowed(heldBy(non)), otherArguments, live, Mismatch, Held, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next, verdict, changed := c.record.Admit(c.request, c.now)
			if verdict != c.verdict || next.State != c.state || changed != c.changed {
				t.Errorf("got %v, %v (changed %v), want %v, %v (%v)", verdict, next.State, changed, c.verdict, c.state, c.changed)
			}
			if diff := cmp.Diff(c.record, next); !changed && diff != "" {
				t.Errorf("an unchanged record differs: %s", diff)
			}
			if told, known := c.request.recall(c.record); known && told.Verdict == MayRun {
				t.Error("a record that is only remembered says that the call may run")
			}
		})
	}
}
