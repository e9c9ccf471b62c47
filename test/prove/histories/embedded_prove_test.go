//go:build prove

package histories

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
)

// interruptions of the embedded store.
type interruptions struct{ kills, reopens atomic.Int64 }

// TestEmbedded: one process with many goroutines, which is killed, or closes and
// opens its file, in the middle of them. Every history lives through one or two
// of these.
func TestEmbedded(t *testing.T) {
	const tracks = 2 // files at a time, so that one works while the other is opened
	run := newProof(t, "embedded", proof.Runs(3_000, 20_000))
	run.need = append(run.need, SawReopened)
	run.unanswered = mostInterrupted
	var cuts interruptions
	var wg sync.WaitGroup
	for range tracks {
		tr := &track{running: run, t: t, cuts: &cuts, job: job{Path: filepath.Join(t.TempDir(), "records")}}
		wg.Go(tr.follow)
	}
	wg.Wait()
	run.figure("killed %d times, reopened %d times", cuts.kills.Load(), cuts.reopens.Load())
	if cuts.kills.Load() == 0 || cuts.reopens.Load() == 0 {
		t.Error("the store was never interrupted")
	}
	run.report()
}

// track is one file and the process that has it.
type track struct {
	*running
	t    *testing.T
	cuts *interruptions
	job  job
	p    *process
}

func (tr *track) heard(m message) { tr.recorder.Add(m.Phase, *m.Op) }

// follow records histories, many at a time, until there are enough.
func (tr *track) follow() {
	tr.p, _ = start(tr.t, tr.job, tr.heard)
	for {
		var group []int
		for range 48 {
			if history, more := tr.next(); more {
				group = append(group, history)
			}
		}
		if len(group) == 0 {
			tr.p.end(tr.t)
			return
		}
		tr.record(group)
	}
}

// record lets a group of histories run through their phases.
func (tr *track) record(group []int) {
	const clients = 4 // whatever they have under way is left in doubt, twice
	ends := map[int]int64{}
	var reopens []Operation
	order := Order{Seed: tr.seed, Clients: upTo(clients), Total: clients}
	for phase := range 3 {
		order.Phase = phase
		order.Conclude = phase == 2
		var all []<-chan struct{}
		for _, history := range group {
			order.History = history
			all = append(all, tr.p.order(order))
		}
		if phase == 0 || phase == 1 && rand.IntN(2) == 0 {
			time.Sleep(5*time.Millisecond + rand.N(40*time.Millisecond)) // a random moment is the point
			opened := tr.interrupt()
			ends[phase] = opened.Call
			reopens = append(reopens, opened)
			continue
		}
		for _, done := range all {
			if !tr.p.wait(done) {
				tr.t.Error("the process is gone")
				return
			}
		}
	}
	for _, history := range group {
		tr.check(history, ends, reopens)
	}
}

// interrupt ends the process, or has it close and open its store, and returns
// when and how it was open again.
func (tr *track) interrupt() (opened Operation) {
	if tr.cuts.reopens.Load() < tr.cuts.kills.Load() {
		tr.cuts.reopens.Add(1)
		tr.p.order(Order{Reopen: true})
		return tr.p.awaitOpen(tr.t)
	}
	tr.cuts.kills.Add(1)
	tr.p.kill(tr.t)
	killed := monotonic()
	tr.p, opened = start(tr.t, tr.job, tr.heard)
	opened.Call = killed
	return opened
}
