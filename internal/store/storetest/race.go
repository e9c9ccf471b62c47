package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// crowd runs f for 0 to n-1 at the same time.
func crowd(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}

// oneWinner: of 64 who ask for each of many ids at once, exactly one runs it.
func oneWinner(s *suite) {
	const askers, ids = 64, 40
	var winners, replays [ids]atomic.Int32
	crowd(askers, func(i int) {
		for n := range ids {
			id := fmt.Sprintf("id-%d", (n+i)%ids)
			owner := fmt.Sprintf("owner-%d", i)
			got, err := s.store.Admit(s.Context(), request(id, owner, tool.Effect(n%4), long))
			if err != nil {
				s.Error(err)
				return
			}
			switch got.Verdict {
			case dedupe.Won:
				winners[(n+i)%ids].Add(1)
				end := settlement(id, owner, got.Record.Epoch, dedupe.Done)
				if v, err := s.store.Settle(s.Context(), end); err != nil || v != dedupe.Settled {
					s.Errorf("the winner's settlement: %v, %v", v, err)
				}
			case dedupe.Replay:
				replays[(n+i)%ids].Add(1)
			case dedupe.InFlight:
			case dedupe.OutcomeUnknown, dedupe.Mismatch, dedupe.Exceeded, dedupe.DuplicateEffect, dedupe.EffectInFlight, dedupe.EffectUnknown, dedupe.AwaitsApproval, dedupe.MayRun:
				s.Errorf("%s: %v", id, got.Verdict)
			}
		}
	})
	for n := range ids {
		if w := winners[n].Load(); w != 1 {
			s.Errorf("id-%d was won %d times", n, w)
		}
		if got := s.lookup(key(fmt.Sprintf("id-%d", n))); got.State != dedupe.Done || got.Epoch != 1 {
			s.Errorf("id-%d ended as %v, epoch %d", n, got.State, got.Epoch)
		}
	}
}

// settlementRacesExpiry: an owner settles at about the time its lease runs out
// while others ask. Whatever the order, the record ends DONE with the owner's
// result, and nobody else ever wins a call that must not repeat.
func settlementRacesExpiry(s *suite) {
	const ids, observers = 16, 4
	crowd(ids, func(n int) {
		id := fmt.Sprintf("id-%d", n)
		if got, err := s.store.Admit(s.Context(), request(id, "alice", tool.NonIdempotent, s.lease)); err != nil || got.Verdict != dedupe.Won {
			s.Errorf("%s: %v, %v", id, got.Verdict, err)
			return
		}
		crowd(observers+1, func(i int) {
			if i == observers {
				s.awaitState(id, dedupe.Unknown)
				if v, err := s.store.Settle(s.Context(), settlement(id, "alice", 1, dedupe.Done)); err != nil || v != dedupe.Settled {
					s.Errorf("%s: the owner's settlement: %v, %v", id, v, err)
				}
				return
			}
			s.await("the call is done", func() bool {
				got, err := s.store.Admit(s.Context(), request(id, fmt.Sprintf("observer-%d", i), tool.NonIdempotent, long))
				if err != nil || got.Verdict == dedupe.Won {
					s.Errorf("%s: %v, %v", id, got.Verdict, err)
					return true
				}
				return got.Verdict == dedupe.Replay && string(got.Record.Result) == "result of alice"
			})
		})
	})
}

// takeover: of a crowd that finds an expired claim of a repeatable call exactly
// one takes it over, and only that one can settle it.
func takeover(s *suite) {
	const ids, observers = 16, 8
	for n := range ids {
		s.wantVerdict(s.admit(request(fmt.Sprintf("id-%d", n), "alice", tool.Keyed, s.lease)), dedupe.Won)
	}
	s.awaitState(fmt.Sprintf("id-%d", ids-1), dedupe.NotRun)
	crowd(ids, func(n int) {
		id := fmt.Sprintf("id-%d", n)
		var won, settled atomic.Int32
		crowd(observers, func(i int) {
			owner := fmt.Sprintf("observer-%d", i)
			got, err := s.store.Admit(s.Context(), request(id, owner, tool.Keyed, long))
			if err != nil {
				s.Error(err)
				return
			}
			if got.Verdict == dedupe.Won {
				won.Add(1)
			}
			end := settlement(id, owner, 2, dedupe.Done)
			if v, err := s.store.Settle(s.Context(), end); err != nil {
				s.Error(err)
			} else if v == dedupe.Settled {
				settled.Add(1)
			}
		})
		if won.Load() != 1 || settled.Load() != 1 {
			s.Errorf("%s was taken over %d times and settled by %d", id, won.Load(), settled.Load())
		}
	})
}
