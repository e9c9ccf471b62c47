//go:build prove

package journal

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// callsPerRound is how many calls are in flight when the store dies.
const callsPerRound = 40

// fate is what happens to the sidecar in a round, beside the death of its store.
type fate uint8

const (
	lives            fate = iota
	killedAfterwards      // when every caller has its answer
	killedInBetween       // while it appends to the journal
)

// The store dies when the effects have happened and before their results are
// recorded, and comes back later.
func TestStoreDownAtSettle(t *testing.T) {
	t.Parallel()
	y := outages(t, proof.Runs(8, 200), lives)
	report(t, y, "store down at settle, then back")
}

// The sidecar is killed too, with the results in its journal, and started again
// before the store is back or after.
func TestStoreDownAtSettleSidecarKilled(t *testing.T) {
	t.Parallel()
	y := outages(t, proof.Runs(8, 200), killedAfterwards)
	report(t, y, "store down at settle, sidecar killed too")
}

// The sidecar is killed while it writes to its journal. Who had an answer by
// then finds it again; the others may find out, or are told that nobody knows.
func TestSidecarKilledWhileItJournals(t *testing.T) {
	t.Parallel()
	y := outages(t, proof.Runs(8, 200), killedInBetween)
	if y.counts["unanswered"] == 0 {
		t.Error("no kill came in between: nothing was shown")
	}
	report(t, y, "sidecar killed while it journals")
}

func report(t *testing.T, y *tally, fault string) {
	t.Helper()
	if y.counts["journaled"] == 0 {
		t.Error("nothing was journaled: nothing was shown")
	}
	proof.Report(t, proof.Row{
		Fault: fault, Store: "redis", Runs: y.counts["rounds"], Violations: y.violations,
		Figure: fmt.Sprintf("%d calls, %d journaled; duplicates at two sidecars: %d byte for byte, %d unknown; journal empty within %v of the store's return",
			y.counts["calls"], y.counts["journaled"], y.counts["replayed"], y.counts["unknown"], y.longest.Round(10*time.Millisecond)),
	})
}

// outages runs rounds in several worlds side by side.
func outages(t *testing.T, rounds int, f fate) *tally {
	t.Helper()
	y := newTally()
	t.Run("worlds", func(t *testing.T) {
		for n := range worldsAtOnce / 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				w := startWorld(t)
				random := rand.New(rand.NewPCG(uint64(f), uint64(n)))
				for r := n; r < rounds; r += worldsAtOnce / 2 {
					w.round(t, y, random, f, fmt.Sprintf("r%d-", r))
					y.add("rounds", 1)
				}
			})
		}
	})
	return y
}

// round is one outage, from the calls before it to what duplicates get after.
func (w *world) round(t *testing.T, y *tally, random *rand.Rand, f fate, prefix string) {
	t.Helper()
	answers := w.outage(t, y, random, f, prefix)
	w.s.TakeLog()
	storeFirst := random.IntN(2) == 0
	if storeFirst {
		w.redis.Restart()
	}
	back := time.Now()
	if f != lives {
		w.s.Run()
		back = time.Now() // nobody was there to replay before
	}
	if !storeFirst {
		w.fromTheJournal(t, y, answers)
		w.redis.Restart()
		back = time.Now()
	}
	w.awaitReplay(t)
	y.took(time.Since(back))
	w.awaitOther(t)
	w.duplicates(t, y, answers)
	if log := w.s.TakeLog(); strings.Contains(log, "settlement superseded") || strings.Contains(log, "settlement lost") || strings.Contains(log, "damaged") {
		y.broken(t, "%s: the sidecar says\n%s", prefix, log)
	}
}

// outage kills the store around the end of calls and returns their answers, nil
// for those that got none.
func (w *world) outage(t *testing.T, y *tally, random *rand.Rand, f fate, prefix string) map[string]*response {
	t.Helper()
	open := w.hold()
	answers := map[string]*response{}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := range callsPerRound {
		id := fmt.Sprint(prefix, i)
		answers[id] = nil
		calls.Go(func() {
			res, err := call(w.s, id)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = res
			} else if f != killedInBetween {
				y.broken(t, "%s: no answer: %v", id, err)
			}
		})
	}
	for id := range answers {
		if err := w.ledger.Await(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if random.IntN(3) == 0 {
		open() // some are recorded, for some the store dies in between
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		w.redis.Kill()
	} else {
		w.redis.Kill()
		open()
	}
	answered := make(chan struct{})
	go func() {
		calls.Wait()
		close(answered)
	}()
	if f == killedInBetween {
		w.awaitAppends(random, answered)
		w.s.Kill()
	}
	<-answered
	if f == killedAfterwards {
		w.s.Kill()
	}
	w.countAnswers(t, y, answers)
	return answers
}

// awaitAppends returns when the journal has grown by a random part of what is
// about to be written to it, or when everything is answered.
func (w *world) awaitAppends(random *rand.Rand, answered <-chan struct{}) {
	enough := w.journalSize() + 1 + random.Int64N(callsPerRound*1100)
	for w.journalSize() < enough {
		select {
		case <-answered:
			return
		case <-time.After(100 * time.Microsecond): // between two looks at the file
		}
	}
}

func (w *world) countAnswers(t *testing.T, y *tally, answers map[string]*response) {
	t.Helper()
	y.add("calls", len(answers))
	for id, res := range answers {
		switch {
		case res == nil:
			y.add("unanswered", 1)
		case res.GetIsError() || res.GetReplayed() || !strings.Contains(res.GetContent(), id):
			y.broken(t, "%s: the first caller got %v", id, res)
		case !res.GetRecorded():
			y.add("journaled", 1)
		}
	}
}

// fromTheJournal asks, with the store still away, for a call that waits in the
// journal.
func (w *world) fromTheJournal(t *testing.T, y *tally, answers map[string]*response) {
	t.Helper()
	for id, first := range answers {
		if first == nil || first.GetRecorded() {
			continue
		}
		if again, err := call(w.s, id); err != nil || !same(t, first, again) || again.GetRecorded() {
			y.broken(t, "%s: with the store away its duplicate got %v, %v", id, again, err)
		}
		return
	}
}

// duplicates asks both sidecars for every call again, and the ledger how often
// it was carried out.
func (w *world) duplicates(t *testing.T, y *tally, answers map[string]*response) {
	t.Helper()
	var all sync.WaitGroup
	for id, first := range answers {
		all.Go(func() {
			for _, s := range []*harness.Sidecar{w.s, w.other} {
				again, err := call(s, id)
				w.judge(t, y, id, first, again, err)
			}
		})
	}
	all.Wait()
	for id := range answers {
		if n := w.ledger.Executions(id); n != 1 {
			y.broken(t, "%s was carried out %d times", id, n)
		}
	}
}

func (w *world) judge(t *testing.T, y *tally, id string, first, again *response, err error) {
	t.Helper()
	switch {
	case err != nil:
		y.broken(t, "%s: its duplicate got %v", id, err)
	case first != nil && same(t, first, again) && again.GetRecorded():
		y.add("replayed", 1)
	case first == nil && again.GetReplayed() && !again.GetIsError() && strings.Contains(again.GetContent(), id):
		y.add("replayed", 1)
	case first == nil && again.GetError().GetCode() == "OUTCOME_UNKNOWN":
		y.add("unknown", 1)
	default:
		y.broken(t, "%s: its first caller got\n%v\nits duplicate\n%v", id, first, again)
	}
}
