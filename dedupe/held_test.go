package dedupe

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

const holdFor = 20 * time.Second // over when a lease is out

// waits is a request that asks a person first.
func waits(owner string, effect tool.Effect) Request {
	req := asks(owner, effect)
	req.Hold = &Hold{For: holdFor, Result: []byte("ask")}
	return req
}

// keepsHeld is a request of a call that is held only if it is already.
func keepsHeld(owner string) Request {
	req := waits(owner, tool.NonIdempotent)
	req.Hold.Standing = true
	return req
}

// heldBy is a call that alice was told to ask a person for.
func heldBy(effect tool.Effect) Record {
	return Record{
		State: Held, Owner: "alice", Tool: "refund", Effect: effect, Fingerprint: [32]byte{7},
		StartedAt: start, LeaseUntil: start.Add(holdFor), Result: []byte("ask"),
	}
}

func allowed(r Record) Record {
	r.Approval = []byte("ada: looked")
	return r
}

func approves(owner string, epoch int64) Settlement {
	return Settlement{
		Key: tool.CallID{ID: "call_0"}, Owner: owner, Epoch: epoch, State: Held, Resolves: true,
		Approval: []byte("ada: looked"), Retention: time.Hour,
	}
}

func denies(owner string, epoch int64) Settlement {
	s := settles(owner, epoch, Done)
	s.Resolves, s.Attempts = true, 0
	return s
}

// asksAfter is what the owner of a claim settles who asks a person.
func asksAfter(owner string) Settlement {
	s := settles(owner, 1, Held)
	s.HoldFor, s.Attempts = holdFor, 0
	return s
}

// A person is asked before the claim, and never twice for what was allowed.
func TestAdmitOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	non, keyed := tool.NonIdempotent, tool.Keyed
	otherArguments := waits("bob", non)
	otherArguments.Fingerprint = [32]byte{8}
	mayHaveRun := heldBy(keyed)
	mayHaveRun.Epoch, mayHaveRun.Attempts = 1, 2
	for _, c := range []struct {
		name    string
		record  Record
		request Request
		now     time.Time
		verdict Verdict
		state   State
		epoch   int64
		owner   string
		changed bool
	}{
		{"nobody has asked yet", Record{}, waits("bob", non), live, AwaitsApproval, Held, 0, "bob", true},
		{"it is held already", heldBy(non), waits("bob", non), live, AwaitsApproval, Held, 0, "alice", false},
		{"its own request, late on its way", heldBy(non), waits("alice", non), lapsed, AwaitsApproval, Held, 0, "alice", false},
		{"and when it was allowed meanwhile", allowed(heldBy(non)), waits("alice", non), live, AwaitsApproval, Held, 0, "alice", false},
		{"it is allowed", allowed(heldBy(non)), waits("bob", non), live, Won, Claimed, 1, "bob", true},
		{"nobody has said anything in time", heldBy(non), waits("bob", non), lapsed, AwaitsApproval, Held, 0, "bob", true},
		{"over at the very instant", heldBy(non), waits("bob", non), start.Add(holdFor), AwaitsApproval, Held, 0, "bob", true},
		{"it was allowed, and sent too late", allowed(heldBy(non)), waits("bob", non), lapsed, AwaitsApproval, Held, 0, "bob", true},
		{"other arguments", heldBy(non), otherArguments, live, Mismatch, Held, 0, "alice", false},
		{"other arguments than were allowed", allowed(heldBy(non)), otherArguments, live, Mismatch, Held, 0, "alice", false},
		{"nobody need be asked any more", heldBy(non), asks("bob", non), live, Won, Claimed, 1, "bob", true},
		{"it may have run and may no longer be repeated", mayHaveRun, waits("bob", non), live, OutcomeUnknown, Unknown, 1, "alice", true},

		{"after it provably did not run", settled(non, NotRun), waits("bob", non), live, AwaitsApproval, Held, 1, "bob", true},
		{"it did not run, and was allowed", allowed(settled(non, NotRun)), waits("bob", non), lapsed, Won, Claimed, 2, "bob", true},
		{"lease out, keyed, not allowed", claimed(keyed), waits("bob", keyed), lapsed, AwaitsApproval, Held, 1, "bob", true},
		{"lease out, keyed, allowed", allowed(claimed(keyed)), waits("bob", keyed), lapsed, Won, Claimed, 2, "bob", true},
		{"lease out, non_idempotent, allowed", allowed(claimed(non)), waits("bob", non), lapsed, OutcomeUnknown, Unknown, 1, "alice", true},
		{"it runs", claimed(non), waits("bob", non), live, InFlight, Claimed, 1, "alice", false},
		{"its owner did not hear that it was claimed", claimed(non), waits("alice", non), live, Won, Claimed, 1, "alice", true},
		{"it is done", settled(non, Done), waits("bob", non), live, Replay, Done, 1, "alice", false},

		{"whether it is to be held is known later", Record{}, keepsHeld("bob"), live, Won, Claimed, 1, "bob", true},
		{"and now it is", heldBy(non), keepsHeld("bob"), live, AwaitsApproval, Held, 0, "alice", false},
		{"and now it is allowed", allowed(heldBy(non)), keepsHeld("bob"), live, Won, Claimed, 1, "bob", true},
		{"and now it is over", heldBy(non), keepsHeld("bob"), lapsed, Won, Claimed, 1, "bob", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next, verdict, changed := c.record.Admit(c.request, c.now)
			if verdict != c.verdict || changed != c.changed {
				t.Errorf("got %v (changed %v), want %v (%v)", verdict, changed, c.verdict, c.changed)
			}
			if next.State != c.state || next.Epoch != c.epoch || next.Owner != c.owner {
				t.Errorf("record is %v, epoch %d of %s; want %v, epoch %d of %s", next.State, next.Epoch, next.Owner, c.state, c.epoch, c.owner)
			}
			if diff := cmp.Diff(c.record, next); !changed && diff != "" {
				t.Errorf("an unchanged record differs: %s", diff)
			}
			if next.State == Held && changed && (next.Approved() || !next.LeaseUntil.Equal(c.now.Add(holdFor)) || string(next.Result) != "ask") {
				t.Errorf("held anew as %+v", next)
			}
			if verdict == Won && next.Approved() != (c.record.Approved() && (c.record.State != Held || c.now.Before(c.record.LeaseUntil))) {
				t.Errorf("claimed with the approval %q, of %q", next.Approval, c.record.Approval)
			}
		})
	}
}

// What a person is asked of may have run before, and then everybody is told so.
func TestAHoldForgetsNoAttempt(t *testing.T) {
	t.Parallel()
	heldAfterOne := heldBy(tool.Keyed)
	heldAfterOne.Epoch, heldAfterOne.Attempts = 1, 1
	for name, c := range map[string]struct {
		record Record
		now    time.Time
		want   Fate
	}{
		"never sent":            {Record{}, live, NeverRan},
		"held twice":            {heldBy(tool.Keyed), lapsed, NeverRan},
		"given back unsent":     {unsent(tool.Keyed, 1), live, NeverRan},
		"sent":                  {settled(tool.Keyed, NotRun), live, Repeatable},
		"provably not executed": {settled(tool.NonIdempotent, NotRun), live, NeverRan},
		"lost with its owner":   {claimed(tool.Keyed), lapsed, Repeatable},
		"of an earlier epoch":   {unsent(tool.Keyed, 2), live, Repeatable},
		"sent, and held twice":  {heldAfterOne, lapsed, Repeatable},
	} {
		held, verdict, _ := c.record.Admit(waits("bob", tool.Keyed), c.now)
		if verdict != AwaitsApproval || held.Fate(tool.Keyed) != c.want {
			t.Errorf("%s: %v, and its fate is %d, want %d", name, verdict, held.Fate(tool.Keyed), c.want)
		}
		if got := held.Observed(c.now.Add(holdFor)); got.Fate(tool.Keyed) != c.want || got.State != NotRun || !got.Lapsed {
			t.Errorf("%s: over, it is %v of fate %d, want %d", name, got.State, got.Fate(tool.Keyed), c.want)
		}
	}
}

// A hold is decided by a person, once, and only while it counts.
func TestAHoldIsDecided(t *testing.T) {
	t.Parallel()
	non := tool.NonIdempotent
	otherWord := approves("alice", 0)
	otherWord.Approval = []byte("bob: why not")
	for _, c := range []struct {
		name     string
		record   Record
		settles  Settlement
		now      time.Time
		verdict  SettleVerdict
		state    State
		approved bool
	}{
		{"allowed", heldBy(non), approves("alice", 0), live, Settled, Held, true},
		{"allowed too late", heldBy(non), approves("alice", 0), start.Add(holdFor), Superseded, Held, false},
		{"allowed once more", allowed(heldBy(non)), approves("alice", 0), lapsed, Settled, Held, true},
		{"allowed by another too", allowed(heldBy(non)), otherWord, live, Superseded, Held, true},
		{"another hold than was looked at", heldBy(non), approves("bob", 0), live, Superseded, Held, false},
		{"another epoch than was looked at", heldBy(non), approves("alice", 1), live, Superseded, Held, false},
		{"what runs is not allowed", claimed(non), approves("alice", 1), live, Superseded, Claimed, false},
		{"nor what did not run", settled(non, NotRun), approves("alice", 1), live, Superseded, NotRun, false},
		{"nor what is done", settled(non, Done), approves("alice", 1), live, Superseded, Done, false},
		{"nothing is there", Record{}, approves("alice", 0), live, Superseded, Absent, false},
		{"denied", heldBy(non), denies("alice", 0), live, Settled, Done, false},
		{"denied after it was allowed", allowed(heldBy(non)), denies("alice", 0), live, Settled, Done, true},
		{"denied too late", heldBy(non), denies("alice", 0), lapsed, Superseded, Held, false},
		{"another denied than was looked at", heldBy(non), denies("bob", 0), live, Superseded, Held, false},
		{"given back by who was told", heldBy(non), settles("alice", 0, NotRun), live, Superseded, Held, false},

		{"its owner asks a person", claimed(non), asksAfter("alice"), live, Settled, Held, false},
		{"what was allowed is asked for anew", allowed(claimed(non)), asksAfter("alice"), live, Settled, Held, false},
		{"a stranger asks", secondOf(claimed(non)), asksAfter("alice"), live, Superseded, Claimed, false},
		{"asked after it was done", settled(non, Done), asksAfter("alice"), live, Superseded, Done, false},
		{"asked after it was found unknown", observed(non), asksAfter("alice"), live, Superseded, Unknown, false},
	} {
		next, verdict, changed := c.record.Settle(c.settles, c.now)
		if verdict != c.verdict || next.State != c.state || next.Approved() != c.approved {
			t.Errorf("%s: verdict %d, %v, approved %v; want %d, %v, %v", c.name, verdict, next.State, next.Approved(), c.verdict, c.state, c.approved)
		}
		if diff := cmp.Diff(c.record, next); !changed && diff != "" {
			t.Errorf("%s: an unchanged record differs: %s", c.name, diff)
		}
		if changed && next.State == Held && !next.LeaseUntil.Equal(c.now.Add(holdFor)) {
			t.Errorf("%s: it counts until %v", c.name, next.LeaseUntil)
		}
	}
}

// What was taken is taken when it is sent again by who did not hear so.
func TestAHoldIsDecidedOnce(t *testing.T) {
	t.Parallel()
	denied, _, _ := heldBy(tool.NonIdempotent).Settle(denies("alice", 0), live)
	if _, verdict, changed := denied.Settle(denies("alice", 0), lapsed); verdict != Settled || changed {
		t.Errorf("denied again: verdict %d, changed %v", verdict, changed)
	}
	asked, _, _ := claimed(tool.NonIdempotent).Settle(asksAfter("alice"), live)
	if _, verdict, changed := allowed(asked).Settle(asksAfter("alice"), live); verdict != Settled || changed {
		t.Errorf("asked again: verdict %d, changed %v", verdict, changed)
	}
}

// Who knows that a call has run knows better than who asks whether it may.
func TestALateOwnerOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	held, _, _ := claimed(tool.Keyed).Admit(waits("bob", tool.Keyed), lapsed)
	done := settles("alice", 1, Done)
	done.Claim = &Origin{Record: claimed(tool.Keyed)}
	for name, r := range map[string]Record{"held": held, "approved": allowed(held)} {
		if next, verdict, _ := r.Settle(done, lapsed); verdict != Settled || next.State != Done || next.Epoch != 2 {
			t.Errorf("%s: verdict %d, %v at epoch %d", name, verdict, next.State, next.Epoch)
		}
	}
	asks := asksAfter("alice")
	asks.Claim = done.Claim
	if next, verdict, changed := (Record{}).Settle(asks, lapsed); verdict != Settled || changed {
		t.Errorf("asked for what is forgotten: verdict %d, %v", verdict, next.State)
	}
}

// Nothing of a hold is counted.
func TestAHoldIsNotCounted(t *testing.T) {
	t.Parallel()
	claim := waits("alice", tool.NonIdempotent)
	claim.Draw.Counter = "p"
	held, verdict, _ := Record{}.Admit(claim, start)
	if back, made := (Record{}).Moves(held); back != "" || made != "" {
		t.Errorf("held: %q gets back, %q counts", back, made)
	}
	if after, exceeded := claim.Draw.Bill(Record{}, held, verdict, Tally{Calls: 5}, start); exceeded != nil || after.Calls != 5 {
		t.Errorf("held: %+v, %+v", after, exceeded)
	}
	claim.Owner = "bob"
	won, _, _ := allowed(held).Admit(claim, live)
	if back, made := allowed(held).Moves(won); back != "" || made != "p" {
		t.Errorf("claimed: %q gets back, %q counts", back, made)
	}
	again, _, _ := won.Settle(asksAfter("bob"), live)
	if back, made := won.Moves(again); back != "p" || made != "" {
		t.Errorf("held after its claim: %q gets back, %q counts", back, made)
	}
}

func TestHoldsThatNoStoreTakes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Hold){
		"for no time":                func(h *Hold) { h.For = 0 },
		"for longer than it is kept": func(h *Hold) { h.For = 24*time.Hour + 1 },
		"too many words":             func(h *Hold) { h.Result = make([]byte, MaxResultBytes+1) },
	} {
		req := waits("alice", tool.NonIdempotent)
		if err := req.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(req.Hold); !errors.Is(req.Validate(), ErrInvalid) {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, c := range map[string]struct {
		of     Settlement
		change func(*Settlement)
	}{
		"allowed by nobody":         {approves("alice", 0), func(s *Settlement) { s.Approval = nil }},
		"allowed by too much":       {approves("alice", 0), func(s *Settlement) { s.Approval = make([]byte, MaxApprovalBytes+1) }},
		"allowed for some time":     {approves("alice", 0), func(s *Settlement) { s.HoldFor = holdFor }},
		"allowed by its owner":      {approves("alice", 1), func(s *Settlement) { s.Resolves = false }},
		"asked for no time":         {asksAfter("alice"), func(s *Settlement) { s.HoldFor = 0 }},
		"asked after it was sent":   {asksAfter("alice"), func(s *Settlement) { s.Attempts = 1 }},
		"asked of no epoch":         {asksAfter("alice"), func(s *Settlement) { s.Epoch = 0 }},
		"asked, and allowed":        {asksAfter("alice"), func(s *Settlement) { s.Approval = []byte("ada") }},
		"asked for too long":        {asksAfter("alice"), func(s *Settlement) { s.HoldFor = 2 * time.Hour }},
		"done, and held":            {settles("alice", 1, Done), func(s *Settlement) { s.HoldFor = holdFor }},
		"done, and allowed":         {settles("alice", 1, Done), func(s *Settlement) { s.Approval = []byte("ada") }},
		"done, of no epoch":         {settles("alice", 1, Done), func(s *Settlement) { s.Epoch = 0 }},
		"not run, of no epoch seen": {settles("alice", 1, NotRun), func(s *Settlement) { s.Epoch, s.Resolves = 0, true }},
	} {
		if err := c.of.Validate(); err != nil {
			t.Fatal(name, err)
		}
		if c.change(&c.of); !errors.Is(c.of.Validate(), ErrInvalid) {
			t.Errorf("%s: accepted", name)
		}
	}
}
