//go:build prove

package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

const (
	// aTenure is short, so that a stopped process outlasts it; a lease is not.
	aTenure = 200 * time.Millisecond
	// oustedCode is how a worker ends that another has succeeded.
	oustedCode = 4
)

// incarnationOf are the options of a process that is the next of an instance.
func incarnationOf(instance string) dedupe.Options {
	return dedupe.Options{
		Lease: time.Hour, Tenure: aTenure, Instance: instance,
		Who:  dedupe.Who{Host: instance, PID: os.Getpid(), Since: time.Now()},
		Gone: func(who dedupe.Who) bool { return errors.Is(syscall.Kill(who.PID, 0), syscall.ESRCH) },
	}
}

// succeed waits until the worker is the only process of its instance, if it is of
// any, and ends it when it is not any more.
func (w *worker) succeed(d *dedupe.Dedupe) error {
	if w.job.Instance == "" {
		return nil
	}
	if err := d.Alone(context.Background()); err != nil {
		return err
	}
	for d.Ping(context.Background()) != nil { // it starts without a store that does not answer in time
		time.Sleep(aTenure / 20)
	}
	w.teller.tell(message{Call: &callEvent{Instance: w.job.Instance, PID: os.Getpid(), Kind: took, At: monotonic()}})
	go func() { // ends with the process
		<-d.Ousted()
		os.Exit(oustedCode)
	}()
	return nil
}

// TestIncarnations: processes that make the same calls at the same time, under
// leases that nobody outlasts. Each is killed and started again, or stopped until
// the next one of its instance is there, and then goes on.
func TestIncarnations(t *testing.T) {
	const lanes = 24
	s := &successors{
		calls: calls{
			T: t, addr: redisserver.Start(t, redisserver.Options{}).Addr, seed: rand.Uint64(), want: wanted(t, proof.Runs(1_000, 10_000)),
			events: map[int][]callEvent{}, shown: map[callKind]int{},
		},
		took: make(chan callEvent, 64),
	}
	for i := range 3 {
		s.processes = append(s.processes, s.start(i))
	}
	finished, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); s.harass(finished) }()
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for history := int(s.last.Add(1)); history <= s.want && s.violations.Load() < enough; history = int(s.last.Add(1)) {
				if !s.record(history) {
					s.Error("a worker is gone")
					return
				}
				s.recorded.Add(1)
			}
		})
	}
	wg.Wait()
	close(finished)
	<-ended
	for _, p := range s.processes {
		p.end(t)
	}
	s.judgeTakes()
	s.report()
}

// successors are the histories of TestIncarnations.
type successors struct {
	calls

	took chan callEvent
	// takes are when each process took its instance over, held is when one last
	// found that it holds a claim, or was about to execute its call.
	takes map[int]callEvent
	held  map[int]callEvent
	ousts int
	// recorded are the histories that came to their end.
	recorded atomic.Int64
}

// heard is calls.heard, and notes who did what when.
func (s *successors) heard(m message) {
	if m.Call.Kind == took {
		s.took <- *m.Call
		return
	}
	s.calls.heard(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := *m.Call; (e.Kind == holds || e.Kind == executes) && e.Begun > s.held[e.PID].Begun {
		if s.held == nil {
			s.held = map[int]callEvent{}
		}
		s.held[e.PID] = e
	}
}

// start starts the next process of an instance, and waits until it has taken over.
func (s *successors) start(i int) *process {
	p, _ := start(s.T, job{Redis: s.addr, Calls: true, Instance: fmt.Sprint("shop", i)}, s.heard)
	select {
	case e := <-s.took:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.takes == nil {
			s.takes = map[int]callEvent{}
		}
		s.takes[e.PID] = e
	case <-p.gone:
		s.Error("the next process of an instance does not start")
	}
	return p
}

// harass kills processes, and stops some until they are succeeded.
func (s *successors) harass(finished <-chan struct{}) {
	for {
		select {
		case <-finished:
			return
		case <-time.After(rand.N(60 * time.Millisecond)):
		}
		i := rand.IntN(len(s.processes))
		old := s.processes[i]
		kill := rand.IntN(3) == 0
		if kill {
			old.kill(s.T)
		} else {
			old.signal(s.T, syscall.SIGSTOP)
		}
		next := s.start(i)
		s.mu.Lock()
		s.processes[i] = next
		s.mu.Unlock()
		if kill {
			s.kills++
			continue
		}
		s.stops++
		old.killed.Store(true) // that it ends is as it should be
		old.signal(s.T, syscall.SIGCONT)
		<-old.gone
		_ = old.cmd.Wait() // its state says how it ended
		if code := old.cmd.ProcessState.ExitCode(); code != oustedCode {
			s.Errorf("a worker that was succeeded ended with %v", old.cmd.ProcessState)
		}
		s.ousts++
	}
}

// judgeTakes finds processes that went on after another had taken over.
func (s *successors) judgeTakes() {
	for _, next := range s.takes {
		for pid, e := range s.held {
			before, known := s.takes[pid]
			if known && before.Instance == next.Instance && before.At < next.At && e.Begun > next.At {
				s.violations.Add(1)
				s.Errorf("history %d: process %d of %s %s, though process %d had taken over %v before", e.History, pid, e.Instance, e.Kind, next.PID,
					time.Duration(e.Begun-next.At))
			}
		}
	}
}

func (s *successors) report() {
	s.Helper()
	s.Logf("they show %v", maps.Clone(s.shown))
	for _, kind := range []callKind{executes, holds, lost, replays, unknown, inFlight, settled} {
		if s.shown[kind] == 0 && s.want >= 1000 && s.violations.Load() == 0 {
			s.Errorf("no history shows %q", kind)
		}
	}
	if s.want >= 1000 && slices.Min([]int{s.kills, s.ousts}) == 0 {
		s.Errorf("%d processes were killed, %d succeeded while they were stopped", s.kills, s.ousts)
	}
	proof.Report(s.T, proof.Row{
		Fault: "calls of incarnations that are killed, or stopped and succeeded", Store: "redis",
		Runs: int(s.recorded.Load()), Violations: int(s.violations.Load()),
		Figure: fmt.Sprintf("%d executions, %d replays, %d unknown under a lease of 1 h; %d kills, %d stops, after which each predecessor ended",
			s.executions.Load(), s.shown[replays], s.shown[unknown], s.kills, s.stops),
	})
}
