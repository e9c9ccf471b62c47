package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// drawn is alice's request for a call that counts in the prompt p-1, within ceilings.
func drawn(id string, d dedupe.Draw) dedupe.Request {
	req := request(id, "alice", tool.NonIdempotent, long)
	d.Counter = "p-1"
	req.Draw = d
	return req
}

func note(id string) dedupe.Note { return dedupe.Note{Key: key(id), Retention: retention} }

// tally asks for a tally without changing it.
func (s *suite) tally(counter string) dedupe.Tally {
	s.Helper()
	n := note("nobody's")
	n.Counter = counter
	return s.note(n).Tally
}

func (s *suite) log(name string) [][]byte {
	s.Helper()
	n := note("nobody's")
	n.Logs = []string{name}
	return s.note(n).Logs[0]
}

func (s *suite) note(n dedupe.Note) dedupe.Known {
	s.Helper()
	noted, err := s.store.Note(s.Context(), n)
	if err != nil {
		s.Fatalf("Note %q: %v", n.Key.ID, err)
	}
	return noted
}

// wantTally compares all of a tally but its start.
func (s *suite) wantTally(when string, got, want dedupe.Tally) {
	s.Helper()
	got.StartedAt = want.StartedAt
	if got != want {
		s.Errorf("%s: got %+v, want %+v", when, got, want)
	}
}

// callsCeiling: as many calls are claimed as there may be, and nothing else counts.
func callsCeiling(s *suite) {
	within := dedupe.Draw{MaxCalls: 3}
	for i := range int64(3) {
		admission := s.admit(drawn(fmt.Sprint(i), within))
		s.wantVerdict(admission, dedupe.Won)
		s.wantTally("won", admission.Tally, dedupe.Tally{Calls: i + 1})
	}
	refused := s.admit(drawn("one too many", within))
	s.wantVerdict(refused, dedupe.Exceeded)
	if refused.Ceiling != dedupe.CallsCeiling {
		s.Errorf("exceeded %v", refused.Ceiling)
	}
	s.wantTally("exceeded", refused.Tally, dedupe.Tally{Calls: 3})
	if got := s.lookup(key("one too many")); got.State != dedupe.Absent {
		s.Errorf("a call beyond the ceiling is %v", got.State)
	}
	again := s.admit(drawn("0", within))
	s.wantVerdict(again, dedupe.Won)
	s.wantTally("asked again by its owner", again.Tally, dedupe.Tally{Calls: 3})
	his := drawn("0", within)
	his.Owner = "bob"
	duplicate := s.admit(his)
	s.wantVerdict(duplicate, dedupe.InFlight)
	s.wantTally("a duplicate in flight", duplicate.Tally, dedupe.Tally{Calls: 3})
	s.settle(settlement("0", "alice", 1, dedupe.Done))
	replay := s.admit(his)
	s.wantVerdict(replay, dedupe.Replay)
	s.wantTally("a replay", replay.Tally, dedupe.Tally{Calls: 3})
	his.Fingerprint = [32]byte{9}
	mismatch := s.admit(his)
	s.wantVerdict(mismatch, dedupe.Mismatch)
	s.wantTally("a mismatch", mismatch.Tally, dedupe.Tally{Calls: 3})
	if got := s.tally("p-1"); got.StartedAt.IsZero() {
		s.Error("the prompt never started")
	}
	s.wantVerdict(s.admit(drawn("no ceiling", dedupe.Draw{})), dedupe.Won)
	s.wantTally("without a ceiling", s.tally("p-1"), dedupe.Tally{Calls: 4})
}

// charged compares the calls of p-1.
func (s *suite) charged(when string, calls int64) {
	s.Helper()
	s.wantTally(when, s.tally("p-1"), dedupe.Tally{Calls: calls})
}

// givenBackToTallies: what its owner and those who resolve it say of a call.
func givenBackToTallies(s *suite) {
	want := s.charged
	resolve := func(id string, state dedupe.State) {
		s.Helper()
		end := settlement(id, "alice", 1, state)
		end.Resolves = true
		s.settle(end)
	}
	s.admit(drawn("back", dedupe.Draw{}))
	s.settle(settlement("back", "alice", 1, dedupe.NotRun))
	want("given back by its owner", 0)
	s.settle(settlement("back", "alice", 1, dedupe.NotRun))
	want("given back twice", 0)
	s.settle(settlement("back", "alice", 1, dedupe.Done))
	want("it ran after all", 1)

	s.admit(drawn("unheard", dedupe.Draw{}))
	unheard := settlement("unheard", "alice", 0, dedupe.NotRun)
	s.settle(unheard)
	want("given back unheard", 1)
	his := drawn("unheard", dedupe.Draw{MaxCalls: 2})
	his.Owner = "bob"
	s.wantVerdict(s.admit(his), dedupe.Won)
	want("claimed by another", 2)

	lost := drawn("lost", dedupe.Draw{})
	lost.Lease = s.lease
	s.admit(lost)
	s.awaitState("lost", dedupe.Unknown)
	lost.Owner = "bob"
	s.wantVerdict(s.admit(lost), dedupe.OutcomeUnknown)
	want("unknown", 3)
	resolve("lost", dedupe.NotRun)
	want("resolved as not run", 2)

	s.admit(drawn("done", dedupe.Draw{}))
	s.settle(settlement("done", "alice", 1, dedupe.Unknown))
	resolve("done", dedupe.Done)
	want("resolved as done", 3)
}

// movedBetweenClaims: a call that changes hands is charged once, and again when it is
// in doubt or restored.
func movedBetweenClaims(s *suite) {
	want := s.charged
	for i := range 3 {
		s.admit(drawn(fmt.Sprint("before ", i), dedupe.Draw{}))
	}
	taken := drawn("taken", dedupe.Draw{MaxCalls: 4})
	taken.Effect, taken.Lease = tool.Keyed, s.lease
	s.wantVerdict(s.admit(taken), dedupe.Won)
	s.awaitState("taken", dedupe.NotRun)
	want("its lease is out", 4)
	taken.Owner, taken.Lease = "bob", long
	admission := s.admit(taken)
	s.wantVerdict(admission, dedupe.Won)
	s.wantTally("taken over at the ceiling", admission.Tally, dedupe.Tally{Calls: 4})
	s.settle(settlement("taken", "bob", 2, dedupe.NotRun))
	want("given back by the later one", 3)
	taken.Owner, taken.Effect = "carol", tool.NonIdempotent
	s.wantVerdict(s.admit(taken), dedupe.OutcomeUnknown)
	want("in doubt after all", 4)

	back := renews("restored", "alice", 1, tool.NonIdempotent)
	back.Claim.Record.Counter = "p-1"
	for range 2 {
		if _, _, err := s.store.Renew(s.Context(), back); err != nil {
			s.Fatal(err)
		}
		want("restored", 5)
	}
	end := late(settlement("settled", "alice", 1, dedupe.Done), tool.NonIdempotent)
	end.Claim.Record.Counter = back.Claim.Record.Counter
	for range 2 {
		s.settle(end)
		want("settled late", 6)
	}
}

// tokensCeiling: what the loop reports, and what outputs add to it since.
func tokensCeiling(s *suite) {
	ask := func(id string, tokens int64, want dedupe.Verdict, ceiling dedupe.Ceiling, after dedupe.Tally) {
		s.Helper()
		admission := s.admit(drawn(id, dedupe.Draw{Tokens: tokens, MaxTokens: 100}))
		s.wantVerdict(admission, want)
		if admission.Ceiling != ceiling {
			s.Errorf("%s: exceeded %v, want %v", id, admission.Ceiling, ceiling)
		}
		s.wantTally(id, admission.Tally, after)
	}
	spend := func(id string, tokens int64) {
		s.Helper()
		end := settlement(id, "alice", 1, dedupe.Done)
		end.Tokens = tokens
		for range 2 { // it counts once
			s.settle(end)
		}
	}
	ask("a", 0, dedupe.Won, dedupe.NoCeiling, dedupe.Tally{Calls: 1})
	spend("a", 40)
	ask("b", 0, dedupe.Won, dedupe.NoCeiling, dedupe.Tally{Calls: 2, Estimated: 40})
	spend("b", 20)
	ask("c", 70, dedupe.Won, dedupe.NoCeiling, dedupe.Tally{Calls: 3, Reported: 70})
	ask("shrunk", 69, dedupe.Exceeded, dedupe.TokensShrank, dedupe.Tally{Calls: 3, Reported: 70})
	ask("d", 70, dedupe.Won, dedupe.NoCeiling, dedupe.Tally{Calls: 4, Reported: 70})
	spend("d", 30)
	ask("at the ceiling", 70, dedupe.Exceeded, dedupe.TokensCeiling, dedupe.Tally{Calls: 4, Reported: 70, Estimated: 30})
	ask("e", 99, dedupe.Won, dedupe.NoCeiling, dedupe.Tally{Calls: 5, Reported: 99})
	ask("reported beyond it", 100, dedupe.Exceeded, dedupe.TokensCeiling, dedupe.Tally{Calls: 5, Reported: 100})
	s.wantTally("after a refusal", s.tally("p-1"), dedupe.Tally{Calls: 5, Reported: 99})

	s.admit(request("uncounted", "alice", tool.NonIdempotent, long))
	spend("uncounted", 5)
	s.wantTally("after a call that counts nowhere", s.tally("p-1"), dedupe.Tally{Calls: 5, Reported: 99})
}

func ageCeiling(s *suite) {
	s.wantVerdict(s.admit(drawn("first", dedupe.Draw{MaxAge: long})), dedupe.Won)
	begun := s.tally("p-1").StartedAt
	tries := 0
	s.await("the prompt is too old", func() bool {
		tries++
		admission := s.admit(drawn(fmt.Sprint(tries), dedupe.Draw{MaxAge: s.lease}))
		if admission.Verdict == dedupe.Exceeded && admission.Ceiling != dedupe.AgeCeiling {
			s.Fatalf("exceeded %v", admission.Ceiling)
		}
		return admission.Verdict == dedupe.Exceeded
	})
	s.wantVerdict(s.admit(drawn("with more time", dedupe.Draw{MaxAge: long})), dedupe.Won)
	if got := s.tally("p-1").StartedAt; !got.Equal(begun) {
		s.Errorf("it started at %v, and then at %v", begun, got)
	}
}

func tallyForgotten(s *suite) {
	short := drawn("short", dedupe.Draw{})
	short.Lease, short.Retention = s.lease, s.lease
	s.admit(short)
	s.await("the tally is forgotten", func() bool { return s.tally("p-1") == dedupe.Tally{} })
	lasting := drawn("x", dedupe.Draw{})
	lasting.Draw.Counter = "p-2"
	lasting.Retention = retention
	s.admit(lasting)
	s.settle(settlement("x", "alice", 1, dedupe.NotRun))
	s.wantTally("what goes on", s.tally("p-2"), dedupe.Tally{})
	if got := s.tally("p-1"); got != (dedupe.Tally{}) {
		s.Errorf("a forgotten tally is %+v", got)
	}
	// A call that runs for long outlives what it was charged to: what it gives back then
	// begins no prompt. On a machine that stood still it is forgotten too, and shows nothing.
	outlives := drawn("outlives", dedupe.Draw{})
	outlives.Draw.Counter = "p-3"
	outlives.Lease, outlives.Retention = s.lease, s.lease
	s.admit(outlives)
	s.await("the tally of a call that runs is forgotten", func() bool {
		s.renew("outlives", "alice", 1, long)
		return s.tally("p-3") == dedupe.Tally{}
	})
	end := settlement("outlives", "alice", 1, dedupe.NotRun)
	end.Tokens = 5
	s.settle(end)
	if got := s.tally("p-3"); got != (dedupe.Tally{}) {
		s.Errorf("what is given back to nobody makes %+v", got)
	}
}

// crowdedCeiling: many ask at once, and what is given back can be had once.
func crowdedCeiling(s *suite) {
	const most = 25
	var won atomic.Int64
	crowd := func(name string) (ids []string) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 3 * most {
			all.Go(func() {
				id := fmt.Sprintf("%s %d", name, i)
				admission, err := s.store.Admit(s.Context(), drawn(id, dedupe.Draw{MaxCalls: most}))
				if err != nil {
					s.Errorf("%s: %v", id, err)
				}
				if admission.Verdict == dedupe.Won {
					won.Add(1)
					mu.Lock()
					defer mu.Unlock()
					ids = append(ids, id)
				}
			})
		}
		all.Wait()
		return ids
	}
	first := crowd("first")
	if len(first) != most {
		s.Errorf("%d calls were claimed, want %d", len(first), most)
	}
	for _, id := range first[:10] {
		s.settle(settlement(id, "alice", 1, dedupe.NotRun))
	}
	if second := crowd("second"); len(second) != 10 {
		s.Errorf("%d calls were claimed for the 10 given back", len(second))
	}
}

// ledger is what the state machine says of a few calls of two prompts.
type ledger struct {
	*suite
	random  *rand.Rand
	now     time.Time
	records map[string]dedupe.Record
	tallies map[string]dedupe.Tally
}

// tallyModel does many things at random to a few calls of two prompts, and compares
// the tallies with what the state machine says.
func tallyModel(s *suite) {
	l := ledger{s, rand.New(rand.NewPCG(1, 2)), time.Now(), map[string]dedupe.Record{}, map[string]dedupe.Tally{}}
	for step := range 1000 {
		id, owner, prompt := fmt.Sprint(l.random.IntN(12)), fmt.Sprint("owner ", l.random.IntN(3)), fmt.Sprint("p-", l.random.IntN(2))
		if l.records[id].Epoch == 0 || l.random.IntN(2) == 0 {
			l.ask(step, id, owner, prompt)
		} else {
			l.end(step, id, owner)
		}
	}
	for _, prompt := range []string{"p-0", "p-1"} {
		s.wantTally(prompt, s.tally(prompt), l.tallies[prompt])
		if l.tallies[prompt].Calls == 0 {
			s.Errorf("nothing was charged to %s", prompt)
		}
	}
}

func (l *ledger) ask(step int, id, owner, prompt string) {
	l.Helper()
	before := l.records[id]
	req := request(id, owner, []tool.Effect{tool.NonIdempotent, tool.Keyed}[l.random.IntN(2)], long)
	req.Draw = dedupe.Draw{Counter: prompt, MaxCalls: 12, Tokens: max(0, l.random.Int64N(int64(step)+20)-10), MaxTokens: 2000}
	next, verdict, _ := before.Admit(req, l.now)
	t, exceeded := req.Draw.Bill(before, next, verdict, l.tallies[prompt], l.now)
	want := dedupe.Admission{Verdict: verdict}
	if exceeded != nil {
		want = *exceeded
	} else {
		if t != (dedupe.Tally{}) {
			l.tallies[prompt] = t
		}
		l.become(id, next)
		want.Tally = l.tallies[prompt]
	}
	got := l.admit(req)
	if got.Verdict != want.Verdict || got.Ceiling != want.Ceiling {
		l.Fatalf("step %d, %q asked for: got %v %v, want %v %v", step, id, got.Verdict, got.Ceiling, want.Verdict, want.Ceiling)
	}
	l.wantTally(fmt.Sprintf("step %d, %q asked for: %v", step, id, got.Verdict), got.Tally, want.Tally)
}

func (l *ledger) end(step int, id, owner string) {
	l.Helper()
	before := l.records[id]
	end := settlement(id, owner, before.Epoch, []dedupe.State{dedupe.Done, dedupe.NotRun, dedupe.NotRun, dedupe.Unknown}[l.random.IntN(4)])
	end.Resolves = end.State != dedupe.Unknown && l.random.IntN(3) == 0
	end.Tokens = 1 + l.random.Int64N(5)
	next, verdict, changed := before.Settle(end, l.now)
	if changed {
		l.become(id, next)
		if t, found := l.tallies[next.Counter]; found {
			l.tallies[next.Counter] = t.Spend(end.Tokens)
		}
	}
	if got := l.settle(end); got != verdict {
		l.Fatalf("step %d, %q settled: got %v, want %v", step, id, got, verdict)
	}
}

// become stores what a record has become, and moves the tallies.
func (l *ledger) become(id string, next dedupe.Record) {
	back, made := l.records[id].Moves(next)
	if t, found := l.tallies[back]; found {
		l.tallies[back] = t.Add(-1, l.now)
	}
	if made != "" {
		l.tallies[made] = l.tallies[made].Add(1, l.now)
	}
	l.records[id] = next
}
