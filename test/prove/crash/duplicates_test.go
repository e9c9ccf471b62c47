//go:build prove

package crash

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// copies is how often each id is sent, at the same time.
const copies = 16

// Many sidecars, one Redis: as many executions as ids, however the duplicates
// are spread.
func TestDuplicatesAcrossSidecars(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	// Long enough for the duplicates to come while the first is running.
	w.slow(2 * time.Millisecond)
	config := w.config(startRedis(t), 30*time.Second)
	f := flood{tally: newTally(), world: w, store: "redis", ids: proof.Runs(300, 100_000), width: 64}
	for range 4 {
		f.sidecars = append(f.sidecars, harness.Start(t, config))
	}
	f.run(t)

	// What one of them has done, every one of them knows.
	for _, s := range f.sidecars {
		if e, err := record(t, s, f.id(0)); err != nil || e.GetState() != stateDone || e.GetEpoch() != 1 || e.GetAttempts() != 1 {
			t.Errorf("the record of the first id, seen from %s: %v, %v", s.Addr, e, err)
		}
		reused := callOf(act, f.id(0))
		reused.ArgumentsJson = `{"key":"another"}`
		if answer := s.Call(reused); answer.GetError().GetCode() != "ID_REUSED" {
			t.Errorf("the first id with other arguments, at %s: %v", s.Addr, answer)
		}
	}
}

func TestDuplicatesInOneSidecar(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.slow(5 * time.Millisecond)
	s := harness.Start(t, w.config(embeddedStore, 30*time.Second))
	f := flood{tally: newTally(), world: w, store: "embedded", ids: proof.Runs(150, 50_000), width: 32}
	f.sidecars = []*harness.Sidecar{s}
	f.run(t)
}

// flood sends every one of many ids several times at once, spread over all
// sidecars, and checks that each was executed once and that all its duplicates
// got the same answer.
type flood struct {
	*tally
	world    *world
	store    string
	sidecars []*harness.Sidecar
	ids      int
	// width is how many ids are under way at the same time.
	width int
}

func (f flood) id(i int) string { return fmt.Sprint("id", i) }

func (f flood) run(t *testing.T) {
	t.Helper()
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(f.width)
	for i := range f.ids {
		group.Go(func() error { return f.one(t, f.id(i)) })
	}
	if err := group.Wait(); err != nil {
		f.broken(t, "%v", err)
	}
	took := time.Since(began)
	executions := f.world.onDisk(t)
	for i := range f.ids {
		if n := executions[f.id(i)]; n != 1 {
			f.broken(t, "%s was executed %d times", f.id(i), n)
		}
	}
	sum := 0 // whatever the ids were
	for _, n := range executions {
		sum += n
	}
	if sum != f.ids {
		f.broken(t, "%d executions of %d ids", sum, f.ids)
	}
	// A machine that stands still for longer than the store may take leaves the
	// calls under way without its word, and they say so. No others do; and in the
	// full form, which is run with nothing beside it, none.
	most := f.width
	if proof.Full() {
		most = 0
	}
	if n := f.of(unconfirmed); n > most {
		f.broken(t, "%d ids were not recorded, at most %d may be", n, most)
	}
	speed := fmt.Sprintf("; %.0f calls/s", float64(f.ids*copies)/took.Seconds())
	if os.Getenv(harness.RaceEnv) != "" {
		speed = "" // of a build that nobody runs
	}
	proof.Report(t, proof.Row{
		Fault: fmt.Sprintf("%d duplicates of each id over %d sidecars", copies, len(f.sidecars)),
		Store: f.store, Runs: f.ids, Violations: f.violations,
		Figure: fmt.Sprintf("%d calls, %d executions of %d ids%s", f.ids*copies, sum, f.ids, speed) + f.told(),
	})
}

// unconfirmed counts the ids of which an answer says that it is not recorded.
const unconfirmed = "not recorded"

// told is what the row says of them; nothing when there are none.
func (f flood) told() string {
	if n := f.of(unconfirmed); n > 0 {
		return fmt.Sprintf("; %d told as not recorded", n)
	}
	return ""
}

// one sends all duplicates of one id.
func (f flood) one(t *testing.T, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := make([]*response, copies)
	var group errgroup.Group
	for i := range answers {
		group.Go(func() (err error) {
			answers[i], err = f.sidecars[i%len(f.sidecars)].Client.ExecuteTool(ctx, callOf(act, id))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	ran, unrecorded := 0, false
	for _, answer := range answers {
		unrecorded = unrecorded || !answer.GetRecorded()
		if !answer.GetReplayed() {
			ran++
		}
		if answer.GetIsError() || answer.GetContent() != answers[0].GetContent() {
			f.broken(t, "%s: one duplicate got %v, another %v", id, answers[0], answer)
		}
	}
	if unrecorded {
		f.add(unconfirmed, 1)
	}
	if ran != 1 {
		f.broken(t, "%s: %d of its duplicates are said to have run", id, ran)
	}
	return nil
}
