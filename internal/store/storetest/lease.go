package storetest

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

func reentrant(s *suite) {
	first := s.admit(request("x", "alice", tool.NonIdempotent, long))
	s.wantVerdict(first, dedupe.Won)
	for range 3 {
		again := s.admit(request("x", "alice", tool.NonIdempotent, long))
		s.wantVerdict(again, dedupe.Won)
		if diff := sameRecord(first.Record, again.Record); diff != "" {
			s.Errorf("the claim changed: %s", diff)
		}
	}
	s.wantVerdict(s.admit(request("x", "bob", tool.NonIdempotent, long)), dedupe.InFlight)
	for range 3 {
		if got := s.settle(settlement("x", "alice", 1, dedupe.Done)); got != dedupe.Settled {
			s.Fatalf("settled again: got %v", got)
		}
	}
	replay := s.admit(request("x", "alice", tool.NonIdempotent, long))
	s.wantVerdict(replay, dedupe.Replay)
	if string(replay.Record.Result) != "result of alice" || replay.Record.Attempts != 3 {
		s.Errorf("replayed %+v", replay.Record)
	}
}

func lateOwner(s *suite) {
	s.wantVerdict(s.admit(request("charge", "alice", tool.NonIdempotent, s.lease)), dedupe.Won)
	s.wantVerdict(s.admit(request("read", "alice", tool.ReadOnly, s.lease)), dedupe.Won)
	s.awaitState("charge", dedupe.Unknown)
	s.awaitState("read", dedupe.NotRun)

	// Looking changed nothing: the owner can still take its lease up again.
	if !s.renew("charge", "alice", 1, s.lease) {
		s.Fatal("the lease was not taken up again")
	}
	s.awaitState("charge", dedupe.Unknown)

	s.wantVerdict(s.admit(request("charge", "bob", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	if s.renew("charge", "alice", 1, long) {
		s.Error("a claim found expired was renewed")
	}
	taken := s.admit(request("read", "bob", tool.ReadOnly, long))
	s.wantVerdict(taken, dedupe.Won)
	if taken.Record.Epoch != 2 {
		s.Errorf("taken over at epoch %d, want 2", taken.Record.Epoch)
	}

	// alice wakes up. The charge is still hers to explain, the read is not.
	if got := s.settle(settlement("charge", "alice", 1, dedupe.Done)); got != dedupe.Settled {
		s.Errorf("the late owner's word: got %v, want Settled", got)
	}
	s.wantVerdict(s.admit(request("charge", "bob", tool.NonIdempotent, long)), dedupe.Replay)
	if got := s.settle(settlement("read", "alice", 1, dedupe.Done)); got != dedupe.Superseded {
		s.Errorf("the superseded owner's word: got %v, want Superseded", got)
	}
	if got := s.settle(settlement("read", "bob", 2, dedupe.Done)); got != dedupe.Settled {
		s.Errorf("the new owner's word: got %v, want Settled", got)
	}
}

// renewal keeps a claim well beyond the lease and the retention it began with.
func renewal(s *suite) {
	s.inTime(func(id string, late func() bool) bool {
		claim := request(id, "alice", tool.NonIdempotent, s.lease)
		claim.Retention = s.lease
		s.wantVerdict(s.admit(claim), dedupe.Won)
		for range 12 {
			time.Sleep(s.lease / 4)
			renewed := s.renew(id, "alice", 1, s.lease)
			if late() {
				return false
			}
			if !renewed {
				s.Fatal("the claim was lost although it was renewed in time")
			}
		}
		held := s.admit(request(id, "bob", tool.NonIdempotent, long))
		seen := s.lookup(key(id))
		if late() {
			return false
		}
		s.wantVerdict(held, dedupe.InFlight)
		if seen.State != dedupe.Claimed || seen.Owner != "alice" {
			s.Errorf("it is %v by %q", seen.State, seen.Owner)
		}
		if s.renew(id, "bob", 1, long) || s.renew(id, "alice", 2, long) || s.renew("another "+id, "alice", 1, long) {
			s.Error("somebody else's claim was renewed")
		}
		return true
	})
}

// inTime runs a case that has to do each step before the short lease is over
// which the step before began, and asks late after each. When the machine was
// too slow the case returns false, and is tried again with another id.
func (s *suite) inTime(f func(id string, late func() bool) bool) {
	s.Helper()
	for i := range 20 {
		// The lease began while the last step was under way: not before the one
		// before it had ended.
		lastButOne, last := time.Now(), time.Now()
		late := func() bool {
			from := lastButOne
			lastButOne, last = last, time.Now()
			return last.Sub(from) >= s.lease
		}
		if f(fmt.Sprint("x", i), late) {
			return
		}
	}
	s.Error("the machine was too slow each time")
}

func givenBack(s *suite) {
	back := settlement("x", "alice", 0, dedupe.NotRun)
	if got := s.settle(back); got != dedupe.Superseded {
		s.Errorf("given back before it was claimed: got %v", got)
	}
	s.wantVerdict(s.admit(request("x", "alice", tool.NonIdempotent, long)), dedupe.Won)
	for range 2 {
		if got := s.settle(back); got != dedupe.Settled {
			s.Errorf("given back: got %v, want Settled", got)
		}
	}
	next := s.admit(request("x", "bob", tool.NonIdempotent, long))
	s.wantVerdict(next, dedupe.Won)
	if next.Record.Epoch != 2 {
		s.Errorf("epoch %d, want 2", next.Record.Epoch)
	}
	if got := s.settle(back); got != dedupe.Superseded {
		s.Errorf("gave somebody else's claim back: got %v", got)
	}
}

// givenBackLate: nobody has heard of any claim, and each is given back only when somebody
// has found its lease out.
func givenBackLate(s *suite) {
	for i, owner := range []string{"alice", "bob"} {
		claimed := s.admit(request("x", owner, tool.NonIdempotent, s.lease))
		s.wantVerdict(claimed, dedupe.Won)
		if claimed.Record.Epoch != int64(i+1) {
			s.Errorf("epoch %d, want %d", claimed.Record.Epoch, i+1)
		}
		s.awaitState("x", dedupe.Unknown)
		s.wantVerdict(s.admit(request("x", "carol", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
		unsent := settlement("x", owner, 0, dedupe.NotRun)
		unsent.Attempts = 0
		if got := s.settle(unsent); got != dedupe.Settled {
			s.Errorf("%s: got %v, want Settled", owner, got)
		}
	}
	s.wantVerdict(s.admit(request("x", "carol", tool.NonIdempotent, long)), dedupe.Won)
}

// declaredAnew: a call that was sent when it could be repeated is not sent again
// when it no longer can, until somebody says that it did not run.
func declaredAnew(s *suite) {
	s.wantVerdict(s.admit(request("x", "alice", tool.Idempotent, long)), dedupe.Won)
	s.settle(settlement("x", "alice", 1, dedupe.NotRun))
	s.wantVerdict(s.admit(request("x", "bob", tool.Idempotent, long)), dedupe.Won)
	unsent := settlement("x", "bob", 2, dedupe.NotRun)
	unsent.Attempts = 0
	s.settle(unsent)

	asked := s.admit(request("x", "carol", tool.NonIdempotent, long))
	s.wantVerdict(asked, dedupe.OutcomeUnknown)
	if r := s.lookup(key("x")); r.State != dedupe.Unknown || r.Effect != tool.NonIdempotent || r.Owner != "bob" || r.Result != nil {
		s.Errorf("it is %+v", r)
	} else if diff := sameRecord(r, asked.Record); diff != "" {
		s.Errorf("told otherwise: %s", diff)
	}
	s.wantVerdict(s.admit(request("x", "dave", tool.Idempotent, long)), dedupe.OutcomeUnknown)
	// Of the claim before the last bob knows nothing.
	again := unsent
	again.Epoch = 0
	if got := s.settle(again); got != dedupe.Superseded {
		s.Errorf("given back once more: %v", got)
	}

	resolved := unsent
	resolved.Resolves = true
	if got := s.settle(resolved); got != dedupe.Settled {
		s.Fatalf("resolved: %v", got)
	}
	s.wantVerdict(s.admit(request("x", "dave", tool.NonIdempotent, long)), dedupe.Won)
}

// ownersWords: somebody found the lease out before the owner said that nobody can
// know; what it tells the model is kept, and is what every duplicate gets.
func ownersWords(s *suite) {
	s.wantVerdict(s.admit(request("x", "alice", tool.NonIdempotent, s.lease)), dedupe.Won)
	s.awaitState("x", dedupe.Unknown)
	s.wantVerdict(s.admit(request("x", "bob", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	for range 2 {
		if got := s.settle(settlement("x", "alice", 1, dedupe.Unknown)); got != dedupe.Settled {
			s.Errorf("the owner's word: got %v, want Settled", got)
		}
		told := s.admit(request("x", "bob", tool.NonIdempotent, long))
		s.wantVerdict(told, dedupe.OutcomeUnknown)
		if string(told.Record.Result) != "result of alice" || told.Record.Attempts != 3 {
			s.Errorf("a duplicate gets %q after %d attempts", told.Record.Result, told.Record.Attempts)
		}
	}
	// It is said once: other words of the same owner change nothing.
	other := settlement("x", "alice", 1, dedupe.Unknown)
	other.Result = []byte("another")
	s.settle(other)
	if got := s.lookup(key("x")); string(got.Result) != "result of alice" {
		s.Errorf("the result became %q", got.Result)
	}
}

// forgotten: a record lives for its retention after its last change, and a
// forgotten id is new.
func forgotten(s *suite) {
	// settled makes a call whose record is kept for a moment, and settles it so
	// that it is kept for longer, or not.
	settled := func(name string, retention time.Duration) (settled string) {
		s.inTime(func(id string, late func() bool) bool {
			settled = name + id
			brief := request(settled, "alice", tool.NonIdempotent, s.lease/2)
			brief.Retention = s.lease
			s.wantVerdict(s.admit(brief), dedupe.Won)
			end := settlement(settled, "alice", 1, dedupe.Done)
			if retention > 0 {
				end.Retention = retention
			}
			got := s.settle(end)
			if late() {
				return false
			}
			if got != dedupe.Settled {
				s.Fatalf("got %v", got)
			}
			return true
		})
		return settled
	}
	kept := settled("kept", 0) // for a day
	gone := settled("gone", s.lease)
	s.awaitState(gone, dedupe.Absent)
	s.wantVerdict(s.admit(request(kept, "bob", tool.NonIdempotent, long)), dedupe.Replay)

	anew := request(gone, "bob", tool.NonIdempotent, long)
	anew.Fingerprint = [32]byte{5}
	again := s.admit(anew)
	s.wantVerdict(again, dedupe.Won)
	if again.Record.Epoch != 1 || again.Record.Result != nil {
		s.Errorf("a forgotten id is not new: %+v", again.Record)
	}
}

func times(s *suite) {
	claim := s.admit(request("x", "alice", tool.NonIdempotent, long)).Record
	if got := claim.LeaseUntil.Sub(claim.StartedAt); got != long {
		s.Errorf("the lease is %v long, want %v", got, long)
	}
	if !claim.FinishedAt.IsZero() {
		s.Errorf("a running call is finished at %v", claim.FinishedAt)
	}
	s.settle(settlement("x", "alice", 1, dedupe.Done))
	done := s.lookup(key("x"))
	if !done.StartedAt.Equal(claim.StartedAt) || done.FinishedAt.Before(done.StartedAt) || !done.LeaseUntil.IsZero() {
		s.Errorf("started %v, then %v; finished %v; leased until %v", claim.StartedAt, done.StartedAt, done.FinishedAt, done.LeaseUntil)
	}
}
