package storetest

import (
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// renews is the word of an owner that it runs a call.
func renews(id, owner string, epoch int64, effect tool.Effect) dedupe.Renewal {
	return dedupe.Renewal{
		Key: key(id), Lease: long, Retention: retention,
		Claim: dedupe.Origin{Record: dedupe.Record{
			State: dedupe.Claimed, Epoch: epoch, Owner: owner, Tool: "refund", Effect: effect, Fingerprint: fingerprint,
			StartedAt: time.UnixMilli(1e12).UTC(), LeaseUntil: time.UnixMilli(1e12 + 1).UTC(), Counter: "prompt",
		}},
	}
}

// late returns a settlement with the claim that it ends.
func late(s dedupe.Settlement, effect tool.Effect) dedupe.Settlement {
	claim := renews(s.Key.ID, s.Owner, s.Epoch, effect).Claim
	s.Claim = &claim
	return s
}

func (s *suite) restore(back dedupe.Renewal) (dedupe.Record, bool) {
	s.Helper()
	record, restored, err := s.store.Renew(s.Context(), back)
	if err != nil {
		s.Fatalf("Renew %q by %s: %v", back.Key.ID, back.Claim.Record.Owner, err)
	}
	return record, restored
}

// restored: the store knows again of a running call that it had forgotten, and
// takes its owner's word on what became of it.
func restored(s *suite) {
	for _, effect := range effects {
		id, back := effect.String(), renews(effect.String(), "alice", 3, effect)
		got, ok := s.restore(back)
		want, _ := dedupe.Record{}.Renew(&back, time.Now())
		if diff := sameRecord(want, got); !ok || diff != "" {
			s.Fatalf("%v: restored %v; the record differs (-want +got):\n%s", effect, ok, diff)
		}
		if diff := sameRecord(want, s.lookup(key(id))); diff != "" {
			s.Errorf("%v: the record differs (-want +got):\n%s", effect, diff)
		}
		duplicate := dedupe.InFlight
		if effect == tool.NonIdempotent {
			duplicate = dedupe.OutcomeUnknown
		}
		s.wantVerdict(s.admit(request(id, "bob", effect, long)), duplicate)
		if renewed := s.renew(id, "alice", 3, long); renewed != effect.Repeatable() {
			s.Errorf("%v: renewed %v", effect, renewed)
		}
		if again, ok := s.restore(back); ok || again.State != want.State {
			s.Errorf("%v: restored again: %v", effect, again.State)
		}
		if got := s.settle(settlement(id, "alice", 3, dedupe.Done)); got != dedupe.Settled {
			s.Errorf("%v: its owner's word: got %v, want Settled", effect, got)
		}
		s.wantVerdict(s.admit(request(id, "bob", effect, long)), dedupe.Replay)
	}
}

// notRestored: whoever has the call has it, and is told of. Its owner is renewed.
func notRestored(s *suite) {
	for _, f := range froms[1:] {
		for _, effect := range effects {
			id := f.name + effect.String()
			want := s.bring(id, f, effect, time.Now())
			if f.expired {
				s.await("the lease runs out", func() bool { return s.lookup(key(id)).State != dedupe.Claimed })
			}
			if f.closed {
				want = s.close(id, effect, want, time.Now())
			}
			for _, owner := range []string{"alice", "carol"} {
				back := renews(id, owner, 1, effect)
				got, ok := s.restore(back)
				want, _ = want.Renew(&back, time.Now())
				if diff := sameRecord(want, got); ok || diff != "" {
					s.Errorf("%s: by %s: restored %v; the record differs (-want +got):\n%s", id, owner, ok, diff)
				}
			}
			if diff := sameRecord(want.Observed(time.Now()), s.lookup(key(id))); diff != "" && !f.expired {
				s.Errorf("%s: the record differs (-want +got):\n%s", id, diff)
			}
		}
	}
}
