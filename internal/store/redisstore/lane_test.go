package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// A step whose rows others change all the time keeps nobody of its lane waiting.
func TestAStepThatIsDecidedAgainAndAgain(t *testing.T) {
	t.Parallel()
	const before = mostAlone + 1 // refusals that come before the other call
	hot, cold := request("hot", tool.NonIdempotent), request("cold", tool.NonIdempotent)
	var refusals atomic.Int64
	var answered atomic.Bool
	waits := make(chan struct{})
	f := startFake(t)
	f.answer = func(words []string) string {
		if slices.Contains(words, RecordKey("sidecall:", cold.Key)) {
			if n := refusals.Load(); n > before+1 {
				t.Errorf("it was sent after %d refusals of the other", n)
			}
			return fmt.Sprintf(":%d\r\n", time.Now().UnixMilli())
		}
		if refusals.Add(1) == before {
			<-waits
		}
		if answered.Load() {
			return fmt.Sprintf(":%d\r\n", time.Now().UnixMilli())
		}
		return fmt.Sprintf("*2\r\n:%d\r\n$-1\r\n", time.Now().UnixMilli())
	}
	s := open(t, Options{Addrs: []string{f.addr}})
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := s.Admit(t.Context(), hot); err != nil {
			t.Error(err)
		}
	})
	for refusals.Load() < before {
		runtime.Gosched()
	}
	both.Go(func() {
		if _, err := s.Admit(t.Context(), cold); err != nil {
			t.Error(err)
		}
		answered.Store(true)
	})
	for l := s.pipe.of(t.Context(), ""); waitingIn(l) == 0; {
		runtime.Gosched()
	}
	close(waits)
	both.Wait()
}

// A step that panics fails alone, whoever sends it: it may be the process's goroutine for others.
func TestAStepThatPanics(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.answer = won
	s := open(t, Options{Addrs: []string{f.addr}})
	bug := own(0, func(*rows) { panic("impossible") })
	if err := s.run(t.Context(), "x", bug); !errors.Is(err, dedupe.ErrPanic) {
		t.Errorf("who sends his own is told %v", err)
	}
	l := s.pipe.of(t.Context(), "x")
	c := newCommand(t.Context(), "x", bug)
	if first, _ := l.enter(c); !first {
		t.Fatal("who has panicked keeps the lane")
	}
	s.pipe.sendWaiting(l, []*command{c}) // as it does for others
	l.callers.Add(-1)
	if !answered(c) || !errors.Is(c.err, dedupe.ErrPanic) {
		t.Errorf("who waits is told %v", c.err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
		t.Errorf("then %v, %v", a.Verdict, err)
	}
}

// waitingIn is how many commands wait in a lane.
func waitingIn(l *lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// deciding is an engine that only decides, by what a server has said.
type deciding struct {
	lane *lane
	said func(key string) row
	at   time.Time
}

func (d *deciding) Do(_ context.Context, step *dedupe.Step) error {
	c := newCommand(context.Background(), RecordKey("", step.Call), step)
	c.rows.read, c.rows.saidAt = []row{d.said(c.key)}, d.at
	if c.decide(d.lane) {
		return fmt.Errorf("it asks again with %d words", len(c.call()))
	}
	return c.err
}

// What is told without asking again is what was true when the server said it, and not of
// a later time, in which its owner may have renewed a lease.
func TestWhatIsToldIsOfOneInstant(t *testing.T) {
	t.Parallel()
	said := dedupe.Instant(1_000_000)
	claim := dedupe.Stored{Retention: time.Hour, Record: dedupe.Record{
		State: dedupe.Claimed, Epoch: 1, Owner: "alice", LeaseUntil: said.Add(time.Second),
	}}
	d := &deciding{
		lane: laneOf(Options{}, said, time.Now().Add(-time.Minute)), at: said,
		said: func(key string) row { return row{key: key, text: stamp(string(claim.AppendSealed(nil)), said)} },
	}
	got, err := storetest.Lookup(t.Context(), dedupe.Machine{Engine: d}, tool.CallID{ID: "x"})
	if err != nil || got.State != dedupe.Claimed {
		t.Errorf("it is %v, %v", got.State, err)
	}
}
