package dedupe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	live   = start.Add(10 * time.Second) // the lease of claimed() still runs
	lapsed = start.Add(31 * time.Second) // it has run out
	lease  = 30 * time.Second
)

// claimed is a record as the first claim of alice left it.
func claimed(effect tool.Effect) Record {
	return Record{
		State: Claimed, Epoch: 1, Owner: "alice", Tool: "refund", Effect: effect, Fingerprint: [32]byte{7},
		StartedAt: start, LeaseUntil: start.Add(lease),
	}
}

// settled is claimed() after alice settled it.
func settled(effect tool.Effect, state State) Record {
	r := claimed(effect)
	r.State, r.LeaseUntil = state, time.Time{}
	r.FinishedAt, r.Attempts, r.Result = start.Add(time.Second), 2, []byte("refunded")
	return r
}

func asks(owner string, effect tool.Effect) Request {
	return Request{
		Key: tool.CallID{ID: "call_0"}, Tool: "refund", Effect: effect, Fingerprint: [32]byte{7},
		Owner: owner, Lease: lease, Retention: 24 * time.Hour,
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	non, idem := tool.NonIdempotent, tool.Idempotent
	otherArguments := asks("bob", non)
	otherArguments.Fingerprint = [32]byte{8}
	otherTool := asks("bob", non)
	otherTool.Tool = "charge"
	ownOtherArguments := otherArguments
	ownOtherArguments.Owner = "alice"

	cases := []struct {
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
		{"nobody has asked yet", Record{}, asks("bob", non), live, Won, Claimed, 1, "bob", true},

		{"a duplicate while the first runs", claimed(non), asks("bob", non), live, InFlight, Claimed, 1, "alice", false},
		{"a duplicate of a read while the first runs", claimed(tool.ReadOnly), asks("bob", tool.ReadOnly), live, InFlight, Claimed, 1, "alice", false},
		{"the owner did not hear the answer", claimed(non), asks("alice", non), live, Won, Claimed, 1, "alice", true},
		{"the owner asks again after its lease", claimed(non), asks("alice", non), lapsed, Won, Claimed, 1, "alice", true},

		{"lease out at the very instant", claimed(non), asks("bob", non), start.Add(lease), OutcomeUnknown, Unknown, 1, "alice", true},
		{"lease out, non_idempotent", claimed(non), asks("bob", non), lapsed, OutcomeUnknown, Unknown, 1, "alice", true},
		{"lease out, read_only", claimed(tool.ReadOnly), asks("bob", tool.ReadOnly), lapsed, Won, Claimed, 2, "bob", true},
		{"lease out, idempotent", claimed(idem), asks("bob", idem), lapsed, Won, Claimed, 2, "bob", true},
		{"lease out, keyed", claimed(tool.Keyed), asks("bob", tool.Keyed), lapsed, Won, Claimed, 2, "bob", true},
		{"lease out, declared idempotent only since", claimed(non), asks("bob", idem), lapsed, OutcomeUnknown, Unknown, 1, "alice", true},
		{"lease out, no longer idempotent", claimed(idem), asks("bob", non), lapsed, OutcomeUnknown, Unknown, 1, "alice", true},

		{"after it provably did not run", settled(non, NotRun), asks("bob", non), live, Won, Claimed, 2, "bob", true},
		{"a stale request of the owner that gave it back", settled(non, NotRun), asks("alice", non), live, InFlight, NotRun, 1, "alice", false},
		{"or late", settled(idem, NotRun), asks("alice", idem), lapsed, InFlight, NotRun, 1, "alice", false},
		{"it may have run and may be repeated", settled(idem, NotRun), asks("bob", idem), live, Won, Claimed, 2, "bob", true},
		{"it may have run and may no longer be repeated", settled(idem, NotRun), asks("bob", non), live, OutcomeUnknown, Unknown, 1, "alice", true},
		{"so may a read", settled(tool.ReadOnly, NotRun), asks("bob", non), live, OutcomeUnknown, Unknown, 1, "alice", true},
		{"it may no longer be repeated, and was never sent", unsent(idem, 1), asks("bob", non), live, Won, Claimed, 2, "bob", true},
		{"it was not sent this time", unsent(idem, 2), asks("bob", non), live, OutcomeUnknown, Unknown, 2, "alice", true},
		{"it provably did not run and may be repeated since", settled(non, NotRun), asks("bob", idem), live, Won, Claimed, 2, "bob", true},
		{"a replay", settled(non, Done), asks("bob", non), lapsed, Replay, Done, 1, "alice", false},
		{"the owner replays its own", settled(non, Done), asks("alice", non), lapsed, Replay, Done, 1, "alice", false},
		{"nobody knows whether it ran", settled(non, Unknown), asks("bob", non), lapsed, OutcomeUnknown, Unknown, 1, "alice", false},
		{"not even its owner", settled(non, Unknown), asks("alice", non), lapsed, OutcomeUnknown, Unknown, 1, "alice", false},

		{"other arguments while it runs", claimed(non), otherArguments, live, Mismatch, Claimed, 1, "alice", false},
		{"other arguments by the owner", claimed(non), ownOtherArguments, live, Mismatch, Claimed, 1, "alice", false},
		{"other arguments when the lease is out", claimed(non), otherArguments, lapsed, Mismatch, Claimed, 1, "alice", false},
		{"other arguments after it did not run", settled(non, NotRun), otherArguments, lapsed, Mismatch, NotRun, 1, "alice", false},
		{"other arguments when it is done", settled(non, Done), otherArguments, lapsed, Mismatch, Done, 1, "alice", false},
		{"other arguments when it is unknown", settled(non, Unknown), otherArguments, lapsed, Mismatch, Unknown, 1, "alice", false},
		{"another tool", settled(non, Done), otherTool, lapsed, Mismatch, Done, 1, "alice", false},
	}
	for _, c := range cases {
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
			if verdict == Won && !next.LeaseUntil.Equal(c.now.Add(lease)) {
				t.Errorf("the lease ends at %v, want %v", next.LeaseUntil, c.now.Add(lease))
			}
		})
	}
}

func secondOf(r Record) Record {
	r.Epoch = 2
	return r
}

// anew is a call that could be repeated, of which a second claim was given back, when
// it no longer can.
func anew() Record {
	r, _, _ := unsent(tool.Keyed, 2).Admit(asks("bob", tool.NonIdempotent), live)
	return r
}

// observed is claimed() after somebody found its lease out.
func observed(effect tool.Effect) Record {
	r := claimed(effect)
	r.State, r.LeaseUntil, r.FinishedAt = Unknown, time.Time{}, start.Add(lease)
	return r
}

// unsent is a call of an epoch in which nothing was sent.
func unsent(effect tool.Effect, epoch int64) Record {
	r := settled(effect, NotRun)
	r.Epoch, r.Attempts = epoch, 0
	return r
}

// A call that is Unknown because its tool was declared anew is as if nobody had
// settled it, and one of the tool as it is now. It counts as sent.
func TestDeclaredAnew(t *testing.T) {
	t.Parallel()
	got, _, _ := settled(tool.Keyed, NotRun).Admit(asks("bob", tool.NonIdempotent), live)
	want := claimed(tool.NonIdempotent)
	want.State, want.LeaseUntil, want.FinishedAt, want.Attempts = Unknown, time.Time{}, live, 2
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A new claim starts from nothing: what an earlier epoch left is not its own.
func TestAdmitForgetsTheEarlierEpoch(t *testing.T) {
	t.Parallel()
	next, _, _ := settled(tool.Keyed, NotRun).Admit(asks("bob", tool.Keyed), lapsed)
	want := Record{
		State: Claimed, Epoch: 2, Owner: "bob", Tool: "refund", Effect: tool.Keyed, Fingerprint: [32]byte{7},
		StartedAt: lapsed, LeaseUntil: lapsed.Add(lease),
	}
	if diff := cmp.Diff(want, next); diff != "" {
		t.Error(diff)
	}
}

func settles(owner string, epoch int64, state State) Settlement {
	return Settlement{
		Key: tool.CallID{ID: "call_0"}, Owner: owner, Epoch: epoch, State: state,
		Attempts: 2, Result: []byte("refunded"), Retention: time.Hour,
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	non, idem := tool.NonIdempotent, tool.Idempotent
	second := claimed(idem)
	second.Epoch, second.Owner = 2, "bob"
	otherResult := settles("alice", 1, Done)
	otherResult.Result = []byte("charged")
	nothing := settles("alice", 1, Unknown)
	nothing.Result = nil

	cases := []struct {
		name    string
		record  Record
		settles Settlement
		verdict SettleVerdict
		state   State
		changed bool
	}{
		{"success", claimed(non), settles("alice", 1, Done), Settled, Done, true},
		{"provably not run", claimed(non), settles("alice", 1, NotRun), Settled, NotRun, true},
		{"ambiguous", claimed(non), settles("alice", 1, Unknown), Settled, Unknown, true},
		{"ambiguous but repeatable is not for UNKNOWN", claimed(idem), settles("alice", 1, Unknown), Superseded, Claimed, false},
		{"nothing was claimed", Record{}, settles("alice", 1, Done), Superseded, Absent, false},
		{"not the owner", claimed(non), settles("bob", 1, Done), Superseded, Claimed, false},
		{"a stale epoch", second, settles("bob", 1, Done), Superseded, Claimed, false},
		{"an epoch from the future", claimed(non), settles("alice", 2, Done), Superseded, Claimed, false},
		{"superseded by a later claim", second, settles("alice", 1, Done), Superseded, Claimed, false},

		{"the late owner knows after all", settled(non, Unknown), settles("alice", 1, Done), Settled, Done, true},
		{"a stranger does not", settled(non, Unknown), settles("bob", 1, Done), Superseded, Unknown, false},
		{"unknown is not taken back", settled(non, Unknown), settles("alice", 1, NotRun), Superseded, Unknown, false},
		{"nobody has heard of its only claim", observed(non), settles("alice", 0, NotRun), Settled, NotRun, true},
		{"nor had a stranger", observed(non), settles("bob", 0, NotRun), Superseded, Unknown, false},
		{"nor of its second", secondOf(observed(non)), settles("alice", 0, NotRun), Settled, NotRun, true},
		{"nor of its second, after one that may have been sent", secondOf(observed(idem)), settles("alice", 0, NotRun), Superseded, Unknown, false},
		{"nor of its second, and its tool was declared anew", anew(), settles("alice", 0, NotRun), Superseded, Unknown, false},

		{"done, said again", settled(non, Done), settles("alice", 1, Done), Settled, Done, false},
		{"done, said again with another result", settled(non, Done), otherResult, Superseded, Done, false},
		{"not run, said again", settled(non, NotRun), settles("alice", 1, NotRun), Settled, NotRun, false},
		{"unknown, said again", settled(non, Unknown), settles("alice", 1, Unknown), Settled, Unknown, false},
		{"an observer said unknown before its owner did", observed(non), settles("alice", 1, Unknown), Settled, Unknown, true},
		{"an observer said unknown, and a stranger does", observed(non), settles("bob", 1, Unknown), Superseded, Unknown, false},
		{"an owner that has nothing to say", observed(non), nothing, Settled, Unknown, false},

		{"done is final: not run", settled(non, Done), settles("alice", 1, NotRun), Superseded, Done, false},
		{"done is final: unknown", settled(non, Done), settles("alice", 1, Unknown), Superseded, Done, false},
		{"the late owner of a call resolved wrongly knows that it ran", settled(non, NotRun), settles("alice", 1, Done), Settled, Done, true},
		{"a stranger does not know that it ran", settled(non, NotRun), settles("bob", 1, Done), Superseded, NotRun, false},
		{"not run needs a new claim: unknown", settled(non, NotRun), settles("alice", 1, Unknown), Superseded, NotRun, false},

		{"given back without knowing the epoch", claimed(non), settles("alice", 0, NotRun), Settled, NotRun, true},
		{"given back twice", settled(non, NotRun), settles("alice", 0, NotRun), Settled, NotRun, false},
		{"nothing to give back", Record{}, settles("alice", 0, NotRun), Superseded, Absent, false},
		{"another's claim is not given back", claimed(non), settles("bob", 0, NotRun), Superseded, Claimed, false},
		{"done without an epoch", claimed(non), settles("alice", 0, Done), Superseded, Claimed, false},
		{"a done call is not given back", settled(non, Done), settles("alice", 0, NotRun), Superseded, Done, false},
	}
	for _, c := range cases {
		for _, now := range []time.Time{live, lapsed} {
			t.Run(c.name+map[time.Time]string{live: ", in time", lapsed: ", late"}[now], func(t *testing.T) {
				t.Parallel()
				next, verdict, changed := c.record.Settle(c.settles, now)
				if verdict != c.verdict || changed != c.changed || next.State != c.state {
					t.Errorf("got verdict %d, %v (changed %v); want %d, %v (%v)", verdict, next.State, changed, c.verdict, c.state, c.changed)
				}
				if !changed {
					if diff := cmp.Diff(c.record, next); diff != "" {
						t.Errorf("an unchanged record differs: %s", diff)
					}
					return
				}
				want := c.record
				want.State, want.FinishedAt, want.LeaseUntil = c.state, now, time.Time{}
				want.Attempts, want.Result = 2, []byte("refunded")
				if diff := cmp.Diff(want, next); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	non, idem := tool.NonIdempotent, tool.Idempotent
	resolves := func(owner string, epoch int64, state State) Settlement {
		s := settles(owner, epoch, state)
		s.Resolves = true
		return s
	}
	other := resolves("alice", 1, Done)
	other.Result = []byte("charged")
	cases := []struct {
		name    string
		record  Record
		settles Settlement
		now     time.Time
		verdict SettleVerdict
		state   State
	}{
		{"it ran", settled(non, Unknown), resolves("alice", 1, Done), live, Settled, Done},
		{"it did not run", settled(non, Unknown), resolves("alice", 1, NotRun), live, Settled, NotRun},
		{"nobody has looked since its lease ran out", claimed(non), resolves("alice", 1, Done), lapsed, Settled, Done},
		{"nor now that it did not run", claimed(non), resolves("alice", 1, NotRun), lapsed, Settled, NotRun},
		{"it may be running", claimed(non), resolves("alice", 1, Done), live, Superseded, Claimed},
		{"what may repeat needs no resolution", claimed(idem), resolves("alice", 1, Done), lapsed, Superseded, Claimed},
		{"another epoch than was looked at", settled(non, Unknown), resolves("alice", 2, Done), live, Superseded, Unknown},
		{"another owner than was looked at", settled(non, Unknown), resolves("bob", 1, Done), live, Superseded, Unknown},
		{"resolved twice", settled(non, Done), resolves("alice", 1, Done), live, Settled, Done},
		{"resolved twice, differently", settled(non, Done), other, live, Superseded, Done},
		{"done is final", settled(non, Done), resolves("alice", 1, NotRun), live, Superseded, Done},
		{"what did not run did not run", settled(non, NotRun), resolves("alice", 1, Done), live, Superseded, NotRun},
		{"nothing is there", Record{}, resolves("alice", 1, Done), live, Superseded, Absent},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next, verdict, _ := c.record.Settle(c.settles, c.now)
			if verdict != c.verdict || next.State != c.state {
				t.Errorf("got verdict %d, %v; want %d, %v", verdict, next.State, c.verdict, c.state)
			}
		})
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		record Record
		owner  string
		epoch  int64
		want   bool
	}{
		{"the owner", claimed(tool.NonIdempotent), "alice", 1, true},
		{"another", claimed(tool.NonIdempotent), "bob", 1, false},
		{"an older epoch", claimed(tool.NonIdempotent), "alice", 0, false},
		{"a later epoch", claimed(tool.NonIdempotent), "alice", 2, false},
		{"done", settled(tool.NonIdempotent, Done), "alice", 1, false},
		{"not run", settled(tool.NonIdempotent, NotRun), "alice", 1, false},
		{"found expired by an observer", settled(tool.NonIdempotent, Unknown), "alice", 1, false},
	}
	for _, c := range cases {
		for _, now := range []time.Time{live, lapsed} {
			claim := claimed(tool.NonIdempotent)
			claim.Owner, claim.Epoch = c.owner, c.epoch
			next, verdict := c.record.Renew(&Renewal{Claim: Origin{Record: claim}, Lease: lease}, now)
			want, says := c.record, Superseded
			if c.want {
				says = Settled
			}
			if verdict != says {
				t.Errorf("%s at %v: renewed %v, want %v", c.name, now, verdict, says)
			}
			if c.want {
				want.LeaseUntil = now.Add(lease)
			}
			if diff := cmp.Diff(want, next); diff != "" {
				t.Errorf("%s at %v: %s", c.name, now, diff)
			}
		}
	}
}

func TestRenewWhatIsForgotten(t *testing.T) {
	t.Parallel()
	for effect, state := range map[tool.Effect]State{tool.NonIdempotent: Unknown, tool.Keyed: Claimed} {
		claim := claimed(effect)
		claim.Attempts, claim.Result = 2, []byte("no")
		next, verdict := Record{}.Renew(&Renewal{Claim: Origin{Record: claim}, Lease: lease}, lapsed)
		want := claimed(effect)
		want.LeaseUntil = lapsed.Add(lease)
		if want.State = state; state == Unknown {
			want.FinishedAt, want.LeaseUntil = lapsed, time.Time{}
		}
		if diff := cmp.Diff(want, next); verdict != SettledAnew || diff != "" {
			t.Errorf("%v: restored %v: %s", effect, verdict, diff)
		}
	}
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		record Record
		now    time.Time
		want   State
	}{
		{"absent", Record{}, lapsed, Absent},
		{"running", claimed(tool.NonIdempotent), live, Claimed},
		{"lease out, non_idempotent", claimed(tool.NonIdempotent), lapsed, Unknown},
		{"lease out, keyed", claimed(tool.Keyed), lapsed, NotRun},
		{"done", settled(tool.NonIdempotent, Done), lapsed, Done},
	} {
		if got := c.record.Observed(c.now).State; got != c.want {
			t.Errorf("%s: observed as %v, want %v", c.name, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := []string{Absent.String(), NotRun.String(), State(9).String(), Won.String(), Mismatch.String(), Verdict(0).String()}; !cmp.Equal(
		got, []string{"absent", "not_run", "state(9)", "won", "mismatch", "verdict(0)"}) {
		t.Error(got)
	}
}
