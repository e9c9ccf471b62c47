package dedupe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/journal"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// sidecar is a process with a journal; end and begin are its death and its
// next start.
type sidecar struct {
	*dedupe.Dedupe
	t    *testing.T
	wire *wire
	path string
	max  int64 // bytes of late settlements
	log  *transcript.Transcript
}

func (s *sidecar) begin() {
	s.t.Helper()
	log := slog.New(slog.NewJSONHandler(s.log, nil))
	j, err := journal.Open(s.path, log)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Dedupe = dedupe.New(s.wire, dedupe.Options{Incarnation: "here", Journal: j, LateBytes: s.max, Log: log})
}

func (s *sidecar) end() {
	s.t.Helper()
	if err := s.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// breaks is a store with a bug, while it is on.
type breaks struct {
	dedupe.Store
	on   atomic.Bool
	hits atomic.Int32
}

func (b *breaks) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if b.on.Load() {
		b.hits.Add(1)
		panic("bug")
	}
	return b.Store.Settle(ctx, s)
}

// unseen is a store that answers no look.
type unseen struct{ dedupe.Store }

func (unseen) Note(context.Context, dedupe.Note) (dedupe.Known, error) {
	return dedupe.Known{}, errDown
}

// keeps is a store that outlives the processes that use it.
type keeps struct{ dedupe.Store }

func (keeps) Close() error { return nil }

// journaled runs a test with time of its own, a store, a process with a
// journal and one without.
func journaled(t *testing.T, f func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe)) {
	t.Helper()
	t.Parallel()
	journaledNow(t, f)
}

// journaledNow is journaled for a test that does so several times.
func journaledNow(t *testing.T, f func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidecall.journal")
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Store: keeps{embedded.InMemory(embedded.Options{})}}
		here := &sidecar{t: t, wire: w, path: path, log: &transcript.Transcript{}}
		here.begin()
		there := dedupe.New(w, dedupe.Options{Incarnation: "there"})
		defer func() {
			w.down.Store(false)
			here.end()
			if err := there.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		f(t, w, here, there)
	})
}

// settleLate settles with the store down.
func settleLate(t *testing.T, w *wire, claim *dedupe.Claim, s dedupe.Settlement) {
	t.Helper()
	w.down.Store(true)
	s.Attempts = 1
	if v, err := claim.Settle(context.Background(), s); err != nil || v != dedupe.Journaled {
		t.Fatalf("not journaled: %v, %v", v, err)
	}
}

func done(result string) dedupe.Settlement {
	return dedupe.Settlement{State: dedupe.Done, Result: []byte(result)}
}

// stored waits, a minute at the most, for what the store holds of a call.
func stored(t *testing.T, w *wire, req dedupe.Request, state dedupe.State, result string) dedupe.Record {
	t.Helper()
	var r dedupe.Record
	for range 600 {
		var err error
		if r, err = storetest.Lookup(context.Background(), w.Store, req.Key); err != nil {
			t.Fatal(err)
		}
		if r.State == state && string(r.Result) == result {
			return r
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the store has %v %q, want %v %q", r.State, r.Result, state, result)
	return r
}

func (s *sidecar) says(t *testing.T, level, what string, times int) {
	t.Helper()
	n := 0
	for line := range strings.SplitSeq(s.log.String(), "\n") {
		if strings.Contains(line, what) {
			if n++; !strings.Contains(line, `"level":"`+level+`"`) {
				t.Errorf("not at level %s: %s", level, line)
			}
		}
	}
	if n != times {
		t.Errorf("%d lines say %q, want %d:\n%s", n, what, times, s.log)
	}
}

func TestAStoreThatIsDownAtSettlementGetsItLater(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		var follower sync.WaitGroup
		follower.Go(func() {
			a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay)
			if string(a.Record.Result) != "paid" || !a.Journaled {
				t.Errorf("the duplicate that waited got %q, journaled %t", a.Record.Result, a.Journaled)
			}
		})
		synctest.Wait()
		before := time.Now()
		settleLate(t, w, claim, done("paid"))
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("the caller waited %v", took)
		}
		follower.Wait()
		here.says(t, "ERROR", "settlement journaled", 1)
		if strings.Contains(here.log.String(), "paid") {
			t.Error("the result is in the log")
		}
		if got := here.Late(); got != (dedupe.LateState{Waiting: 1}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(3 * time.Minute)
		w.down.Store(false)
		back := time.Now()
		stored(t, w, call, dedupe.Done, "paid")
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("replayed only after %v", took)
		}
		synctest.Wait()
		here.says(t, "INFO", "settlement replayed", 1)
		if got := here.Late(); got != (dedupe.LateState{Replayed: 1}) {
			t.Errorf("%+v", got)
		}
		expect(t.Context(), t, there, call, dedupe.Replay)
		a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay)
		if a.Journaled {
			t.Error("still from the journal")
		}
	})
}

// The next settlements do not wait for a store that is known to be down.
func TestAStoreKnownToBeDownIsGivenUpSooner(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		var claims []*dedupe.Claim
		for i := range 3 {
			call := refund(tool.NonIdempotent)
			call.Key.ID = fmt.Sprint("call_", i)
			claims = append(claims, win(t, here.Dedupe, call))
		}
		for i, want := range []time.Duration{2 * time.Second, 250 * time.Millisecond} {
			before := time.Now()
			settleLate(t, w, claims[i], done("ok"))
			if took := time.Since(before); took != want {
				t.Errorf("settlement %d took %v, want %v", i, took, want)
			}
		}
		// One that is slow, but up, is not given up.
		w.down.Store(false)
		w.latency.Store(int64(time.Second))
		stored(t, w, refund(0), dedupe.Done, "ok")
		settle(t, claims[2], dedupe.Done, "ok")
		w.latency.Store(0)
	})
}

// Any request that the store answers ends the pause of the replay.
func TestARequestThatIsAnsweredWakesTheReplay(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		settleLate(t, w, claim, done("ok"))
		time.Sleep(5 * time.Minute)
		w.down.Store(false)
		other := refund(tool.NonIdempotent)
		other.Key.ID = "other"
		win(t, here.Dedupe, other)
		time.Sleep(150 * time.Millisecond)
		if r, err := storetest.Lookup(t.Context(), w.Store, refund(0).Key); err != nil || r.State != dedupe.Done {
			t.Errorf("the store has %v (%v) 150 ms later", r.State, err)
		}
	})
}

// stuck is a store that takes no settlement in time, while it is on.
type stuck struct {
	dedupe.Store
	on atomic.Bool
}

func (s *stuck) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if s.on.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return s.Store.Settle(ctx, settlement)
}

// A caller who has no time says nothing about the store: what others have to
// settle still gets its time.
func TestACallerWithoutTimeIsNoStoreThatIsDown(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call, other := refund(tool.NonIdempotent), refund(tool.NonIdempotent)
		other.Key.ID = "other"
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		here.end()
		slow := &stuck{Store: w.Store}
		slow.on.Store(true)
		w.Store = slow
		w.down.Store(false)
		here.begin()
		claim := win(t, here.Dedupe, other)
		if a := expect(within(50*time.Millisecond), t, here.Dedupe, call, dedupe.Replay); !a.Journaled {
			t.Error("not from the journal")
		}
		before := time.Now()
		if v, err := claim.Settle(t.Context(), done("ok")); err != nil || v != dedupe.Journaled {
			t.Errorf("%v, %v", v, err)
		}
		if took := time.Since(before); took != 2*time.Second {
			t.Errorf("the store was asked for %v, want 2s", took)
		}
		slow.on.Store(false)
		stored(t, w, call, dedupe.Done, "paid")
		stored(t, w, other, dedupe.Done, "ok")
	})
}

func TestTheReplayDoesNotHammerAStoreThatIsDown(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		settleLate(t, w, win(t, here.Dedupe, refund(tool.NonIdempotent)), done("ok"))
		before := w.settles.Load()
		time.Sleep(10 * time.Minute)
		if n := w.settles.Load() - before; n < 100 || n > 300 {
			t.Errorf("asked %d times in 10 minutes", n)
		}
		here.says(t, "WARN", "settlements that wait cannot be brought to the store now", 1)
	})
}

func TestADuplicateIsAnsweredFromTheJournal(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		before := w.admits.Load()
		a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay)
		if string(a.Record.Result) != "paid" || !a.Journaled || a.Record.Attempts != 1 || w.admits.Load() != before {
			t.Errorf("%+v, %d round trips", a, w.admits.Load()-before)
		}
		other := call
		other.Fingerprint = [32]byte{2}
		expect(t.Context(), t, here.Dedupe, other, dedupe.Mismatch)

		// A sidecar that has just started does not know yet that the store is
		// down; nor does it know more of the call than the journal tells.
		here.end()
		here.begin()
		a = expect(t.Context(), t, here.Dedupe, call, dedupe.Replay)
		if string(a.Record.Result) != "paid" || !a.Journaled || a.Record.Tool != "refund" {
			t.Errorf("after a restart: %+v", a)
		}
	})
}

func TestAnUnknownOutcomeWaitsInTheJournalToo(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.Unknown, Result: []byte("who knows")})
		a := expect(t.Context(), t, here.Dedupe, call, dedupe.OutcomeUnknown)
		if string(a.Record.Result) != "who knows" {
			t.Errorf("%q", a.Record.Result)
		}
		w.down.Store(false)
		stored(t, w, call, dedupe.Unknown, "who knows")
		expect(t.Context(), t, there, call, dedupe.OutcomeUnknown)
	})
}

// What did not run may run as soon as the store is there to claim it: the
// replay goes first.
func TestACallThatDidNotRunMayRunOnceTheStoreIsBack(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.NotRun})
		if _, _, err := storetest.Admit(t.Context(), here.Dedupe, call); !errors.Is(err, errDown) {
			t.Errorf("got %v, want the store's error", err)
		}
		w.down.Store(false)
		time.Sleep(6 * time.Second)
		if next := win(t, here.Dedupe, call); next.Record().Epoch != 2 {
			t.Errorf("epoch %d", next.Record().Epoch)
		}
	})
}

// A hold in the journal gives nobody a claim, also when the tool asks nobody any more.
func TestAHoldThatTheStoreDoesNotKnowYet(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.Held, HoldFor: time.Hour, Result: []byte("asked")})
		if a, claim, err := storetest.Admit(t.Context(), here.Dedupe, call); !errors.Is(err, errDown) {
			t.Errorf("got %v, %v, %v, want the store's error", a.Verdict, claim, err)
		}
	})
}

func TestTheNextProcessReplays(t *testing.T) {
	for name, backFirst := range map[string]bool{"the store back before it starts": true, "the store back after": false} {
		t.Run(name, func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
				call := refund(tool.NonIdempotent)
				settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
				here.end()
				w.down.Store(!backFirst)
				here.begin()
				if backFirst {
					// At once, whatever the replay has done by now.
					if a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay); string(a.Record.Result) != "paid" {
						t.Errorf("%q", a.Record.Result)
					}
				}
				time.Sleep(time.Minute)
				w.down.Store(false)
				stored(t, w, call, dedupe.Done, "paid")
				expect(t.Context(), t, there, call, dedupe.Replay)
				time.Sleep(time.Second)
				if got := here.Late(); got.Waiting != 0 || got.Replayed != 1 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// The lease is long over, somebody has found the call unknown: its late owner
// knows better.
func TestALateOwnerDecidesAnUnknownCall(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		settleLate(t, w, claim, done("paid"))
		time.Sleep(time.Minute)
		if a, err := w.Store.Admit(t.Context(), withOwner(call, "observer")); err != nil || a.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("%v, %v", a.Verdict, err)
		}
		w.down.Store(false)
		stored(t, w, call, dedupe.Done, "paid")
		if a := expect(t.Context(), t, there, call, dedupe.Replay); string(a.Record.Result) != "paid" {
			t.Errorf("%q", a.Record.Result)
		}
	})
}

func TestALateOwnerKnowsThatAnUnknownCallDidNotRun(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.NotRun})
		time.Sleep(time.Minute)
		if a, err := w.Store.Admit(t.Context(), withOwner(call, "observer")); err != nil || a.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("%v, %v", a.Verdict, err)
		}
		w.down.Store(false)
		stored(t, w, call, dedupe.NotRun, "")
		time.Sleep(time.Second)
		if got := here.Late(); got != (dedupe.LateState{Replayed: 1}) {
			t.Errorf("%+v", got)
		}
		win(t, there, call)
	})
}

func withOwner(req dedupe.Request, owner string) dedupe.Request {
	req.Owner, req.Lease, req.Retention = owner, time.Second, time.Hour
	return req
}

// A decision that somebody else has made meanwhile stands, and is said.
func TestADecisionOfSomebodyElseStands(t *testing.T) {
	for name, c := range map[string]struct {
		effect tool.Effect
		level  string
		decide func(t *testing.T, w *wire, call dedupe.Request)
	}{
		"an operator": {tool.NonIdempotent, "ERROR", func(t *testing.T, w *wire, call dedupe.Request) {
			r, err := storetest.Lookup(t.Context(), w.Store, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			v, err := w.Store.Settle(t.Context(), dedupe.Settlement{
				Key: call.Key, Owner: r.Owner, Epoch: r.Epoch, State: dedupe.Done, Result: []byte("by hand"), Resolves: true, Retention: time.Hour,
			})
			if err != nil || v != dedupe.Settled {
				t.Fatalf("%v, %v", v, err)
			}
		}},
		"another sidecar": {tool.Idempotent, "WARN", func(t *testing.T, w *wire, call dedupe.Request) {
			a, err := w.Store.Admit(t.Context(), withOwner(call, "another"))
			if err != nil || a.Verdict != dedupe.Won {
				t.Fatalf("%v, %v", a.Verdict, err)
			}
			v, err := w.Store.Settle(t.Context(), dedupe.Settlement{
				Key: call.Key, Owner: "another", Epoch: a.Record.Epoch, State: dedupe.Done, Result: []byte("by hand"), Retention: time.Hour,
			})
			if err != nil || v != dedupe.Settled {
				t.Fatalf("%v, %v", v, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
				call := refund(c.effect)
				settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
				time.Sleep(time.Minute) // past the lease
				c.decide(t, w, call)
				w.down.Store(false)
				// Whoever asks here now, before the replay has: the store decides.
				if a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay); string(a.Record.Result) == "by hand" == a.Journaled {
					t.Errorf("got %q, journaled %t", a.Record.Result, a.Journaled)
				}
				time.Sleep(time.Minute)
				stored(t, w, call, dedupe.Done, "by hand")
				here.says(t, c.level, "settlement superseded", 1)
				if got := here.Late(); got != (dedupe.LateState{Superseded: 1}) {
					t.Errorf("%+v", got)
				}
				if a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay); string(a.Record.Result) != "by hand" {
					t.Errorf("%q", a.Record.Result)
				}
			})
		})
	}
}

// A store that came back without its memory would let the call run again. It is
// told what it has forgotten.
func TestAStoreThatHasForgottenTheCall(t *testing.T) {
	for name, s := range map[string]dedupe.Settlement{
		"done":    done("paid"),
		"unknown": {State: dedupe.Unknown, Result: []byte("who knows")},
		"not run": {State: dedupe.NotRun},
	} {
		t.Run(name, func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
				call := refund(tool.NonIdempotent)
				settleLate(t, w, win(t, here.Dedupe, call), s)
				w.Store = keeps{embedded.InMemory(embedded.Options{})}
				w.down.Store(false)
				time.Sleep(10 * time.Second)
				want := dedupe.LateState{Replayed: 1, Forgotten: 1}
				if s.State == dedupe.NotRun {
					want.Forgotten = 0
				} else {
					here.says(t, "ERROR", "forgotten the call", 1)
				}
				if got := here.Late(); got != want {
					t.Errorf("%+v\n%s", got, here.log)
				}
				switch s.State {
				case dedupe.NotRun:
					win(t, there, call)
				case dedupe.Unknown:
					expect(t.Context(), t, there, call, dedupe.OutcomeUnknown)
				case dedupe.Done:
					expect(t.Context(), t, there, call, dedupe.Replay)
				case dedupe.Absent, dedupe.Claimed, dedupe.Closed, dedupe.Held:
					t.Errorf("settled as %v", s.State)
				}
			})
		})
	}
}

// It may be that another sidecar was faster, and runs the forgotten call again.
func TestAForgottenCallThatRunsAgain(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		w.Store = keeps{embedded.InMemory(embedded.Options{})}
		if a, err := w.Store.Admit(t.Context(), withOwner(call, "another")); err != nil || a.Verdict != dedupe.Won {
			t.Fatalf("%v, %v", a.Verdict, err)
		}
		w.down.Store(false)
		time.Sleep(10 * time.Second)
		here.says(t, "ERROR", "settlement superseded", 1)
	})
}

// itRan are the ends of calls that ran, or may have, and what the next one with
// the same id has to be told.
var itRan = map[string]struct {
	s    dedupe.Settlement
	want dedupe.Verdict
}{
	"done":    {done("paid"), dedupe.Replay},
	"unknown": {dedupe.Settlement{State: dedupe.Unknown, Result: []byte("who knows")}, dedupe.OutcomeUnknown},
}

// Somebody else had the forgotten call, and provably did not run it: that says
// nothing of the first run.
func TestAForgottenCallThatSomebodyElseDidNotRun(t *testing.T) {
	for name, c := range itRan {
		t.Run(name, func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
				call := refund(tool.NonIdempotent)
				settleLate(t, w, win(t, here.Dedupe, call), c.s)
				w.Store = keeps{embedded.InMemory(embedded.Options{})}
				notRun(t, w, withOwner(call, "another"), 1)
				w.down.Store(false)
				time.Sleep(10 * time.Second)
				expect(t.Context(), t, there, call, c.want)
				here.says(t, "ERROR", "forgotten the call", 1)
				if got := here.Late(); got != (dedupe.LateState{Replayed: 1, Forgotten: 1}) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// Nothing was forgotten where somebody else took a repeatable call over, whose
// lease had run out, and did not run it: what is said of its first run counts, and
// sends nobody to look for a store that loses data.
func TestACallThatSomebodyElseTookOverIsNotForgotten(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.Idempotent)
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		time.Sleep(time.Minute)
		notRun(t, w, withOwner(call, "another"), 2)
		w.down.Store(false)
		stored(t, w, call, dedupe.Done, "paid")
		synctest.Wait()
		here.says(t, "ERROR", "forgotten", 0)
		here.says(t, "INFO", "settlement replayed", 1)
		if got := here.Late(); got != (dedupe.LateState{Replayed: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// An owner that does not know how its call ended does not overrule an operator
// who said that it did not run.
func TestAnOwnerWhoDoesNotKnowDoesNotOverruleAResolution(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.Unknown, Result: []byte("who knows")})
		time.Sleep(time.Minute)
		record, err := storetest.Lookup(t.Context(), w.Store, call.Key)
		if err != nil || record.State != dedupe.Unknown {
			t.Fatalf("%v, %v", record.State, err)
		}
		if v, err := w.Store.Settle(t.Context(), dedupe.Settlement{
			Key: call.Key, Owner: record.Owner, Epoch: 1, State: dedupe.NotRun, Resolves: true, Retention: time.Hour,
		}); err != nil || v != dedupe.Settled {
			t.Fatalf("%v, %v", v, err)
		}
		notRun(t, w, withOwner(call, "another"), 2)
		w.down.Store(false)
		time.Sleep(10 * time.Second)
		if record, err = storetest.Lookup(t.Context(), w.Store, call.Key); err != nil || record.State != dedupe.NotRun {
			t.Errorf("%v, %v", record.State, err)
		}
		if got := here.Late(); got != (dedupe.LateState{Superseded: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// notRun claims a call behind the back of the processes, at an epoch, and gives it
// back.
func notRun(t *testing.T, w *wire, req dedupe.Request, epoch int64) {
	t.Helper()
	if a, err := w.Store.Admit(t.Context(), req); err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != epoch {
		t.Fatalf("%v, %v", a.Verdict, err)
	}
	if v, err := w.Store.Settle(t.Context(), dedupe.Settlement{
		Key: req.Key, Owner: req.Owner, Epoch: epoch, State: dedupe.NotRun, Retention: time.Hour,
	}); err != nil || v != dedupe.Settled {
		t.Fatalf("%v, %v", v, err)
	}
}

// The same, where the store forgets while the call runs and is back at its end:
// what goes straight to the store gets the care of what goes by the journal.
func TestAStoreThatForgetsARunningCall(t *testing.T) {
	for name, c := range itRan {
		t.Run(name, func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
				call := refund(tool.NonIdempotent)
				claim := win(t, here.Dedupe, call)
				w.Store = keeps{embedded.InMemory(embedded.Options{})}
				c.s.Attempts = 1
				if v, err := claim.Settle(t.Context(), c.s); err != nil || v != dedupe.Settled {
					t.Errorf("settled: %v, %v", v, err)
				}
				expect(t.Context(), t, there, call, c.want)
				here.says(t, "ERROR", "forgotten the call", 1)
				if got := here.Late(); got != (dedupe.LateState{Forgotten: 1}) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// A duplicate at the sidecar that runs the call waits for it, also when a
// renewal has found that the store knows nothing of the call.
func TestADuplicateOfARunningCallThatTheStoreHasForgotten(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		w.Store = keeps{embedded.InMemory(embedded.Options{})}
		w.down.Store(false) // after which the renewal sees it
		time.Sleep(time.Minute)
		if claim.Held() {
			t.Error("still held: something might be started under it")
		}
		expect(within(time.Second), t, here.Dedupe, call, dedupe.InFlight)
		settle(t, claim, dedupe.Done, "paid")
		if a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay); string(a.Record.Result) != "paid" {
			t.Errorf("replayed %q", a.Record.Result)
		}
	})
}

// An owner that was stopped past its lease before it sent anything: an observer
// could not know, it does, and its call may run again.
func TestALateOwnerThatSentNothing(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		w.down.Store(true) // no renewal arrives
		time.Sleep(31 * time.Second)
		w.down.Store(false)
		expect(t.Context(), t, there, call, dedupe.OutcomeUnknown)
		settle(t, claim, dedupe.NotRun, "")
		if next := win(t, there, call); next.Record().Epoch != 2 {
			t.Errorf("epoch %d", next.Record().Epoch)
		}
	})
}

// What somebody else has decided stands, and is said.
func TestASupersededSettlementIsSaid(t *testing.T) {
	for effect, level := range map[tool.Effect]string{tool.NonIdempotent: "ERROR", tool.Keyed: "WARN"} {
		journaledNow(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
			call := refund(effect)
			claim := win(t, here.Dedupe, call)
			w.Store = keeps{embedded.InMemory(embedded.Options{})}
			if a, err := w.Store.Admit(t.Context(), withOwner(call, "another")); err != nil || a.Verdict != dedupe.Won {
				t.Fatalf("%v, %v", a.Verdict, err)
			}
			if v, err := claim.Settle(t.Context(), done("paid")); err != nil || v != dedupe.Superseded {
				t.Errorf("%v, %v", v, err)
			}
			here.says(t, level, "settlement superseded", 1)
			here.says(t, level, `"decided":"claimed by another"`, 1)
			if got := here.Late(); got != (dedupe.LateState{Superseded: 1}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAJournalThatIsFull(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		here.end()
		here.max = 64 << 10
		here.begin()
		big := bytes.Repeat([]byte("x"), 100<<10)
		// Too large with the output that was cut from it, not without.
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		settleLate(t, w, claim, dedupe.Settlement{
			State: dedupe.Done, Result: []byte("paid"), Output: &dedupe.Output{Ref: "o", Data: big, TTL: time.Hour},
		})
		here.says(t, "ERROR", `"dropped_output_bytes":102400`, 1)
		w.down.Store(false)
		stored(t, w, refund(0), dedupe.Done, "paid")
		// Too large at all: lost, loudly; the record stays claimed, then unknown.
		other := refund(tool.NonIdempotent)
		other.Key.ID = "other"
		claim = win(t, here.Dedupe, other)
		w.down.Store(true)
		if _, err := claim.Settle(t.Context(), done(string(big))); !errors.Is(err, dedupe.ErrFull) || !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
		here.says(t, "ERROR", "settlement lost", 1)
		if got := here.Late(); got.Lost != 1 {
			t.Errorf("%+v", got)
		}
		w.down.Store(false)
		time.Sleep(time.Minute)
		expect(t.Context(), t, here.Dedupe, other, dedupe.OutcomeUnknown)
	})
}

// unreadable is a journal whose disk gives nothing back.
type unreadable struct{ dedupe.Journal }

func (unreadable) Get(uint64) (dedupe.Late, error) {
	return dedupe.Late{}, errors.New("input/output error")
}

// An entry that cannot be read now waits, and it is said why.
func TestAnEntryThatCannotBeReadIsSaid(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		settleLate(t, w, win(t, here.Dedupe, refund(tool.NonIdempotent)), done("paid"))
		here.end()
		w.down.Store(false)
		j, err := journal.Open(here.path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewJSONHandler(here.log, nil))
		here.Dedupe = dedupe.New(w, dedupe.Options{Journal: unreadable{j}, Log: log})
		time.Sleep(time.Minute)
		here.says(t, "WARN", "input/output error", 1)
		if got := here.Late(); got != (dedupe.LateState{Waiting: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// A bug of the store in the background costs neither the process nor the entry.
func TestAPanicOfTheStoreDuringAReplay(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		bug := &breaks{Store: w.Store}
		w.Store = bug
		settleLate(t, w, win(t, here.Dedupe, refund(tool.NonIdempotent)), done("paid"))
		bug.on.Store(true)
		w.down.Store(false)
		time.Sleep(time.Minute)
		if got := here.Late(); got.Waiting != 1 || bug.hits.Load() == 0 {
			t.Errorf("%+v, %d panics", got, bug.hits.Load())
		}
		bug.on.Store(false)
		stored(t, w, refund(0), dedupe.Done, "paid")
	})
}

// What is asked about a call while the store is away is told from the journal.
func TestALookWhileTheStoreIsAway(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		away := w.Store
		w.Store = unseen{away}
		r, err := here.Lookup(t.Context(), call.Key)
		if err != nil || r.State != dedupe.Done || string(r.Result) != "paid" || r.Tool != "refund" {
			t.Errorf("%+v, %v", r, err)
		}
		call.Key.ID = "other"
		if _, err := here.Lookup(t.Context(), call.Key); !errors.Is(err, errDown) {
			t.Errorf("%v", err)
		}
		w.Store = away
	})
}

// That a call did not run here does not say that nobody has run it since: what waits in the
// journal is no answer then, and the store is asked.
func TestALookAtACallThatSomebodyElseHasRunSince(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), dedupe.Settlement{State: dedupe.NotRun})
		away := w.Store
		w.Store = unseen{away}
		if r, err := here.Lookup(t.Context(), call.Key); !errors.Is(err, errDown) {
			t.Errorf("while the store is away: %v, %v", r.State, err)
		}
		w.Store = away
		full := &stuck{Store: w.Store} // for what is late
		full.on.Store(true)
		w.Store = full
		time.Sleep(time.Minute)
		if a, err := full.Store.Admit(t.Context(), withOwner(call, "observer")); err != nil || a.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("%v, %v", a.Verdict, err)
		}
		seen, err := storetest.Lookup(t.Context(), full.Store, call.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []dedupe.Settlement{
			{Owner: seen.Owner, Epoch: 1, State: dedupe.NotRun, Resolves: true},
			{Owner: "another", Epoch: 2, State: dedupe.Done, Result: []byte("paid")},
		} {
			if s.State == dedupe.Done {
				if a, err := full.Store.Admit(t.Context(), withOwner(call, "another")); err != nil || a.Verdict != dedupe.Won {
					t.Fatalf("%v, %v", a.Verdict, err)
				}
			}
			s.Key, s.Retention = call.Key, time.Hour
			if v, err := full.Store.Settle(t.Context(), s); err != nil || v != dedupe.Settled {
				t.Fatalf("%v, %v", v, err)
			}
		}
		w.down.Store(false)
		if r, err := here.Lookup(t.Context(), call.Key); err != nil || string(r.Result) != "paid" {
			t.Errorf("%v, %v", r.State, err)
		}
		expect(t.Context(), t, there, call, dedupe.Replay)
	})
}

// At the start of its process the embedded store decides the calls that were
// left open; the journal knows better.
func TestTheEmbeddedStoreAfterARestart(t *testing.T) {
	for effect, decided := range map[tool.Effect]dedupe.State{tool.NonIdempotent: dedupe.Unknown, tool.Idempotent: dedupe.NotRun} {
		dir := t.TempDir()
		open := func() (dedupe.Store, dedupe.Journal) {
			store, err := embedded.Open(filepath.Join(dir, "s"), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			j, err := journal.Open(filepath.Join(dir, "j"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return store, j
		}
		store, j := open()
		w := &wire{Store: store}
		d := dedupe.New(w, dedupe.Options{Journal: j})
		claim := win(t, d, refund(effect))
		settleLate(t, w, claim, done("paid"))
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		store, j = open()
		if r, err := storetest.Lookup(t.Context(), store, refund(0).Key); err != nil || r.State != decided {
			t.Fatalf("%v, %v", r.State, err)
		}
		d = dedupe.New(store, dedupe.Options{Journal: j})
		if a := expect(t.Context(), t, d, refund(effect), dedupe.Replay); string(a.Record.Result) != "paid" || a.Journaled {
			t.Errorf("%v: %+v", effect, a)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutAJournalTheLossIsCountedAndSaid(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, _ *dedupe.Dedupe) {
		log := &transcript.Transcript{}
		here := &sidecar{t: t, log: log, Dedupe: dedupe.New(keeps{w}, dedupe.Options{Log: slog.New(slog.NewJSONHandler(log, nil))})}
		defer here.end()
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		w.down.Store(true)
		if _, err := claim.Settle(within(time.Second), done("paid")); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
		if got := here.Late(); got != (dedupe.LateState{Lost: 1}) {
			t.Errorf("%+v", got)
		}
		here.says(t, "ERROR", "settlement lost", 1)
		here.says(t, "ERROR", `"tool_use_id":"call_0"`, 1)
		if strings.Contains(log.String(), "paid") {
			t.Error("the result is in the log")
		}
	})
}

// What became of a call is not forgotten for the length of its text.
func TestAnOutputThatNoStoreTakes(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		large := &dedupe.Output{Ref: "o", Data: make([]byte, dedupe.MaxOutputBytes+1<<20), TTL: time.Hour}
		for name, down := range map[string]bool{"store up": false, "store down": true} {
			call := refund(tool.NonIdempotent)
			call.Key.ID = name
			claim := win(t, here.Dedupe, call)
			w.down.Store(down)
			s := done("paid")
			s.Output = large
			if v, err := claim.Settle(t.Context(), s); err != nil || v == dedupe.Superseded {
				t.Errorf("%s: %v, %v", name, v, err)
			}
			w.down.Store(false)
			stored(t, w, call, dedupe.Done, "paid")
			if a := expect(t.Context(), t, there, call, dedupe.Replay); string(a.Record.Result) != "paid" {
				t.Errorf("%s: replayed %q", name, a.Record.Result)
			}
		}
		here.says(t, "ERROR", fmt.Sprintf(`"dropped_output_bytes":%d`, len(large.Data)), 2)
		if got := here.Late().Lost; got != 0 {
			t.Errorf("%d lost", got)
		}
	})
}

// cramped is a store that has no room for an output.
type cramped struct{ dedupe.Store }

func (c cramped) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if s.Output != nil {
		return 0, dedupe.ErrFull
	}
	return c.Store.Settle(ctx, s)
}

// A store that is full says at once that it has no room for an output. The claim is held
// until it is settled without.
func TestAnOutputForWhichThereIsNoRoom(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		w.Store = cramped{w.Store}
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		s := done("paid")
		s.Output = &dedupe.Output{Ref: "o", Data: make([]byte, 100), TTL: time.Hour}
		before := time.Now()
		if _, err := claim.Settle(t.Context(), s); !errors.Is(err, dedupe.ErrUnkept) || time.Since(before) != 0 {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
		if here.Late().Waiting != 0 || !claim.Held() {
			t.Errorf("%d settlements wait, held %v", here.Late().Waiting, claim.Held())
		}
		expect(within(time.Second), t, here.Dedupe, refund(tool.NonIdempotent), dedupe.InFlight)
		settle(t, claim, dedupe.Done, "paid")
		for _, side := range []*dedupe.Dedupe{here.Dedupe, there} {
			expect(t.Context(), t, side, refund(tool.NonIdempotent), dedupe.Replay)
		}
		here.says(t, "WARN", `"dropped_output_bytes":100`, 1)
	})
}

// A store that is full takes a result without the output that was cut from it.
func TestAReplayIntoAStoreThatIsFull(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		w.Store = cramped{w.Store}
		s := done("paid")
		s.Output = &dedupe.Output{Ref: "o", Data: make([]byte, 100), TTL: time.Hour}
		settleLate(t, w, win(t, here.Dedupe, refund(tool.NonIdempotent)), s)
		w.down.Store(false)
		stored(t, w, refund(0), dedupe.Done, "paid")
		synctest.Wait()
		here.says(t, "INFO", "settlement replayed", 1)
		here.says(t, "WARN", `"dropped_output_bytes":100`, 1)
	})
}

// A result that no store takes at all is lost, and said to be.
func TestAResultThatNoStoreTakes(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		s := dedupe.Settlement{State: dedupe.Done, Result: make([]byte, dedupe.MaxResultBytes+1)}
		if _, err := claim.Settle(t.Context(), s); !errors.Is(err, dedupe.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		here.says(t, "ERROR", "settlement lost", 1)
		if got := here.Late(); got != (dedupe.LateState{Lost: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// A caller that has left, or has no time any more, changes nothing: the effect
// has happened.
func TestTheJournalHasATimeOfItsOwn(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		w.down.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if v, err := claim.Settle(ctx, done("paid")); err != nil || v != dedupe.Journaled {
			t.Errorf("%v, %v", v, err)
		}
	})
}

// slowDisk is a journal whose disk takes its time, and may then have no room for an output,
// or for anything.
type slowDisk struct {
	dedupe.Journal
	goesOn       chan struct{}
	noOutput, no bool
}

func (s *slowDisk) Put(late dedupe.Late) (uint64, error) {
	<-s.goesOn
	if s.no || s.noOutput && late.Settlement.Output != nil {
		return 0, errNoSpace
	}
	return s.Journal.Put(late)
}

var errNoSpace = errors.New("no space left on device")

// settledSlowly settles a call, store down, with a disk that does not answer in time; then
// it does.
func settledSlowly(t *testing.T, disk slowDisk, then func(t *testing.T, w *wire, here *sidecar)) {
	t.Helper()
	journaledNow(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		here.end()
		j, err := journal.Open(here.path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		disk.Journal, disk.goesOn = j, make(chan struct{})
		here.Dedupe = dedupe.New(w, dedupe.Options{Journal: &disk, Log: slog.New(slog.NewJSONHandler(here.log, nil))})
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		w.down.Store(true)
		end := done("paid")
		end.Output = &dedupe.Output{Ref: "o", Data: []byte("all of it"), TTL: time.Hour}
		if v, err := claim.Settle(t.Context(), end); !errors.Is(err, errDown) {
			t.Errorf("%v, %v", v, err)
		}
		here.says(t, "ERROR", "the journal's disk is slow", 1)
		here.says(t, "", "settlement lost", 0)
		if got := here.Late(); got != (dedupe.LateState{}) {
			t.Errorf("before anybody knows: %+v", got)
		}
		close(disk.goesOn)
		synctest.Wait()
		then(t, w, here)
	})
}

// What a disk takes in the end is kept, and nobody has said that it was lost.
func TestADiskThatIsSlow(t *testing.T) {
	for name, disk := range map[string]slowDisk{"": {}, `"dropped_output_bytes":9`: {noOutput: true}} {
		settledSlowly(t, disk, func(t *testing.T, w *wire, here *sidecar) {
			here.says(t, "ERROR", "settlement journaled", 1)
			if got := here.Late(); got != (dedupe.LateState{Waiting: 1}) || !strings.Contains(here.log.String(), name) {
				t.Errorf("%q: %+v:\n%s", name, got, here.log)
			}
			w.down.Store(false)
			stored(t, w, refund(0), dedupe.Done, "paid")
			synctest.Wait()
			if got := here.Late(); got != (dedupe.LateState{Replayed: 1}) {
				t.Errorf("%q: %+v", name, got)
			}
		})
	}
}

func TestADiskThatIsSlowAndFails(t *testing.T) {
	settledSlowly(t, slowDisk{no: true}, func(t *testing.T, _ *wire, here *sidecar) {
		here.says(t, "ERROR", "settlement lost", 1)
		if got := here.Late(); got != (dedupe.LateState{Lost: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// A disk that answers nobody any more holds up no end.
func TestTheEndOfAProcessWhoseDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{goesOn: make(chan struct{}), no: true}
		w := &wire{Store: embedded.InMemory(embedded.Options{})}
		j, err := journal.Open(filepath.Join(t.TempDir(), "j"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		disk.Journal = j
		d := dedupe.New(w, dedupe.Options{Journal: disk})
		claim := win(t, d, refund(tool.NonIdempotent))
		w.down.Store(true)
		if _, err := claim.Settle(t.Context(), done("paid")); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if err := d.Close(t.Context()); err == nil {
			t.Error("nobody is told that a settlement may be lost")
		}
		close(disk.goesOn)
		synctest.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// hungDisk is a journal that answers nothing about an entry until it goes on.
type hungDisk struct {
	dedupe.Journal
	gets   bool // only what is read waits, else only what is removed
	goesOn chan struct{}
}

func (h *hungDisk) Get(number uint64) (dedupe.Late, error) {
	if h.gets {
		<-h.goesOn
	}
	return h.Journal.Get(number)
}

func (h *hungDisk) Remove(number uint64) error {
	if !h.gets {
		<-h.goesOn
	}
	return h.Journal.Remove(number)
}

// A disk that hangs while an entry is read or removed holds nobody for longer than he waits, and no end.
func TestAJournalThatHangsHoldsNobody(t *testing.T) {
	for name, gets := range map[string]bool{"read": true, "removed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hangs(t, gets) })
		})
	}
}

func hangs(t *testing.T, gets bool) {
	t.Helper()
	w := &wire{Store: keeps{embedded.InMemory(embedded.Options{})}}
	j, err := journal.Open(filepath.Join(t.TempDir(), "j"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	disk := &hungDisk{Journal: j, gets: gets, goesOn: make(chan struct{})}
	d := dedupe.New(w, dedupe.Options{Journal: disk})
	call, other := refund(tool.NonIdempotent), refund(tool.NonIdempotent)
	other.Key.ID = "other"
	first, second := win(t, d, call), win(t, d, other)
	settleLate(t, w, first, done("paid"))
	settleLate(t, w, second, done("paid"))
	w.down.Store(false)
	for range 3 {
		time.Sleep(time.Minute) // a replay stands there, round after round
		for _, key := range []tool.CallID{call.Key, other.Key} {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			began := time.Now()
			_, _ = d.Lookup(ctx, key) // from the store, or there is no time
			ticket := d.Join(key)
			_, _, _ = ticket.Admit(ctx, call)
			ticket.Leave()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("who has half a second was answered after %v", took)
			}
			cancel()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if err := d.Close(ctx); time.Since(began) > 5*time.Second {
		t.Errorf("the end took %v: %v", time.Since(began), err)
	}
	close(disk.goesOn)
	synctest.Wait()
}
