//go:build prove

package crash

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// callers is how many calls are in flight when the sidecar is killed.
const callers = 8

// The sidecar is killed again and again at a random moment under load, with
// many calls at many steps, in the middle of a group of commits or a pipeline.
func TestKilledUnderLoadEmbedded(t *testing.T) {
	t.Parallel()
	killedUnderLoad(t, "embedded", embeddedStore, time.Hour)
}

func TestKilledUnderLoadRedis(t *testing.T) {
	t.Parallel()
	killedUnderLoad(t, "redis", startRedis(t), shortLease)
}

// loads is the proof for one store.
type loads struct {
	*tally
	*harness.Sidecar
	world *world
	mu    sync.Mutex      // guards done
	done  map[string]bool // ids that are known to have happened
}

func killedUnderLoad(t *testing.T, name, store string, lease time.Duration) {
	t.Helper()
	p := &loads{tally: newTally(), world: startWorld(t), done: map[string]bool{}}
	// A kill is to fall before the work is done as well as after it.
	p.world.slow(4 * time.Millisecond)
	p.Sidecar = harness.Start(t, p.world.config(store, lease))
	runs := proof.Runs(10, 300)
	for run := range runs {
		answers := p.load(t, run)
		p.Run()
		p.sendAgain(t, answers)
		if t.Failed() {
			t.Fatalf("in run %d\n%s", run, p.Log())
		}
		p.TakeLog()
	}
	p.checkLedger(t)
	proof.Report(t, proof.Row{
		Fault: "kill -9 at random moments under load", Store: name, Runs: runs, Violations: p.violations,
		Figure: fmt.Sprintf("%d calls: %d answered before and replayed identically; of %d in flight %d unknown, %d done, %d run afterwards; none twice; %d claims too slow for the lease",
			p.of("answered")+p.of("in flight"), p.of("answered"), p.of("in flight"), p.of("unknown"), p.of("found done"), p.of("run again"),
			p.of("lease too short")),
	})
}

// load sends calls from several callers until the sidecar is killed at a random
// moment. The result holds every id that was sent, nil for no answer.
func (p *loads) load(t *testing.T, run int) map[string]*response {
	t.Helper()
	var mu sync.Mutex
	answers := map[string]*response{}
	answered, first := make(chan struct{}), sync.Once{}
	var sending errgroup.Group
	for caller := range callers {
		sending.Go(func() error {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", run, caller, i)
				answer, err := p.sendHeld(t, p.Sidecar, act, id)
				mu.Lock()
				answers[id] = answer
				mu.Unlock()
				if isUnavailable(err) {
					return nil
				} else if err != nil {
					return err
				}
				first.Do(func() { close(answered) })
			}
		})
	}
	if run%2 == 1 { // however slow the machine is, some calls are answered
		select {
		case <-answered:
		case <-time.After(patience):
		}
	}
	<-time.After(time.Duration(5+rand.N(150)) * time.Millisecond) // the random moment
	p.Kill()
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// sendAgain sends every id of a run again, some at the same time.
func (p *loads) sendAgain(t *testing.T, answers map[string]*response) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(2 * callers)
	for id, before := range answers {
		group.Go(func() error {
			after, err := p.sendHeld(t, p.Sidecar, act, id)
			if err != nil {
				return fmt.Errorf("%s, sent again: %w", id, err)
			}
			if before == nil {
				return p.wasInFlight(t, id, after)
			}
			p.wasAnswered(t, id, before, after)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		p.broken(t, "%v", err)
	}
}

// wasAnswered judges a call that had its answer when the sidecar died.
func (p *loads) wasAnswered(t *testing.T, id string, before, after *response) {
	t.Helper()
	p.add("answered", 1)
	p.happened(id)
	if before.GetIsError() || !before.GetRecorded() || before.GetReplayed() {
		p.broken(t, "%s: with nothing amiss the answer is %v", id, before)
	}
	if !after.GetReplayed() || !sameAnswer(before, after) {
		p.broken(t, "%s: the answer was %v, and after the restart it is %v", id, before, after)
	}
}

// wasInFlight judges a call without an answer: it has happened, or happens now,
// or nobody knows; and that does not change any more.
func (p *loads) wasInFlight(t *testing.T, id string, after *response) error {
	t.Helper()
	again, err := p.sendHeld(t, p.Sidecar, act, id)
	if err != nil {
		return fmt.Errorf("%s, sent again: %w", id, err)
	}
	if !again.GetReplayed() || again.GetContent() != after.GetContent() {
		p.broken(t, "%s: sent again, and then again: %v, %v", id, after, again)
	}
	p.add("in flight", 1)
	switch {
	case after.GetError().GetCode() == "OUTCOME_UNKNOWN":
		p.add("unknown", 1)
		return nil
	case after.GetIsError():
		p.broken(t, "%s: in flight at the kill, and now %v", id, after)
	case after.GetReplayed():
		p.add("found done", 1)
	default:
		p.add("run again", 1)
	}
	p.happened(id)
	return nil
}

func (p *loads) happened(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[id] = true
}

// checkLedger compares everything that was said with what really happened, as
// it is on disk.
func (p *loads) checkLedger(t *testing.T) {
	t.Helper()
	executions := p.world.onDisk(t)
	unsaid := 0
	for id, n := range executions {
		if n != 1 {
			p.broken(t, "%s happened %d times", id, n)
		}
		if !p.done[id] {
			unsaid++
		}
	}
	for id := range p.done {
		if executions[id] == 0 {
			p.broken(t, "%s is said to have happened and has not", id)
		}
	}
	if unsaid > p.of("unknown") {
		p.broken(t, "%d calls happened that are not said to have, of which only %d are unknown", unsaid, p.of("unknown"))
	}
	if p.of("answered") == 0 || p.of("unknown") == 0 {
		t.Errorf("%d calls answered and %d unknown: the kills did not fall into the load", p.of("answered"), p.of("unknown"))
	}
}
