package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever sleeps here does so in a bubble of testing/synctest: it is time that a
// test is about, on the bubble's clock. None waits for anything to happen.

// queue is a server of so many workers with a line in front of them. Whoever
// gives up leaves the line, unless the server is blind to that.
type queue struct {
	workers chan struct{}
	service time.Duration
	blind   bool
	serving sync.WaitGroup // what a blind server has yet to do
}

// work is one call at a worker, whoever waits for it.
func (q *queue) work() {
	q.workers <- struct{}{}
	time.Sleep(q.service)
	<-q.workers
}

func (q *queue) serve(ctx context.Context) bool {
	if q.blind {
		served := make(chan struct{})
		q.serving.Go(func() {
			q.work()
			close(served)
		})
		select {
		case <-served:
			return true
		case <-ctx.Done():
			return false
		}
	}
	select {
	case q.workers <- struct{}{}:
		defer func() { <-q.workers }()
	case <-ctx.Done():
		return false
	}
	time.Sleep(q.service) // a worker does not stop for a caller who has left
	return ctx.Err() == nil
}

// load makes calls at a rate, each of which gives up after patience, through a
// bound of places and an Adaptive. It returns how many per second were answered
// in time, in the second half of its time.
func load(a *Adaptive, places *Bulkhead, rate int, length, patience time.Duration, serve func(context.Context, int) bool) float64 {
	return loadOf(a, places, rate, length, func(int) time.Duration { return patience }, serve)
}

// loadOf is load with a patience for each call.
func loadOf(a *Adaptive, places *Bulkhead, rate int, length time.Duration, patience func(int) time.Duration, serve func(context.Context, int) bool) float64 {
	var good atomic.Int64
	var calls sync.WaitGroup
	began := time.Now()
	for n := range int(length.Seconds() * float64(rate)) {
		calls.Go(func() {
			var place Place
			if !places.Acquire(&place) {
				return
			}
			defer place.Leave()
			pass, ok := a.Enter()
			if !ok {
				return
			}
			defer pass.Leave()
			ctx, cancel := context.WithTimeout(context.Background(), patience(n))
			defer cancel()
			sent := time.Now()
			if !serve(ctx, n) {
				<-ctx.Done()
				pass.Late(time.Since(sent))
				return
			}
			pass.Answered(time.Since(sent))
			if time.Since(began) > length/2 && time.Since(began) <= length {
				good.Add(1)
			}
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
	calls.Wait()
	return float64(good.Load()) / (length / 2).Seconds()
}

// The reason for an Adaptive: without it nearly nothing is answered in time.
func TestAQueueIsKeptShorterThanThePatienceOfItsCallers(t *testing.T) {
	for name, test := range map[string]struct {
		workers           int
		service, patience time.Duration
		length            time.Duration
		blind             bool
		// share of the capacity that must be used.
		share float64
	}{
		"a queue of many":           {workers: 8, service: 25 * time.Millisecond, patience: 500 * time.Millisecond, length: 8 * time.Second, share: 0.95},
		"blind to those who left":   {workers: 8, service: 25 * time.Millisecond, patience: 500 * time.Millisecond, length: 12 * time.Second, share: 0.9, blind: true},
		"one worker":                {workers: 1, service: 20 * time.Millisecond, patience: 500 * time.Millisecond, length: 16 * time.Second, share: 0.95},
		"service most of the time":  {workers: 40, service: 400 * time.Millisecond, patience: 500 * time.Millisecond, length: 16 * time.Second, share: 0.4},
		"patience of a few seconds": {workers: 16, service: 200 * time.Millisecond, patience: 2 * time.Second, length: 30 * time.Second, share: 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			capacity := float64(test.workers) / test.service.Seconds()
			under := func(a *Adaptive) (good float64) {
				synctest.Test(t, func(*testing.T) {
					q := &queue{workers: make(chan struct{}, test.workers), service: test.service, blind: test.blind}
					serve := func(ctx context.Context, _ int) bool { return q.serve(ctx) }
					good = load(a, NewBulkhead(256), int(5*capacity), test.length, test.patience, serve)
					q.serving.Wait()
				})
				return good
			}
			without, with := under(nil), under(NewAdaptive())
			t.Logf("capacity %.0f/s: %.0f/s without, %.0f/s with", capacity, without, with)
			if with < test.share*capacity {
				t.Errorf("%.0f/s of %.0f/s", with, capacity)
			}
			if without > 0.1*capacity {
				t.Errorf("%.0f/s of %.0f/s without it: nothing is proved", without, capacity)
			}
		})
	}
}

func TestABoundGoesWithTheOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, q := NewAdaptive(), &queue{workers: make(chan struct{}, 8), service: 25 * time.Millisecond}
		serve := func(ctx context.Context, _ int) bool { return q.serve(ctx) }
		load(a, NewBulkhead(256), 1500, 5*time.Second, 500*time.Millisecond, serve)
		if a.Bound() == 0 {
			t.Fatal("five times too much, and no bound")
		}
		load(a, NewBulkhead(256), 200, 8*time.Second, 500*time.Millisecond, serve)
		if a.Bound() != 0 {
			t.Errorf("a bound of %d, without need", a.Bound())
		}
	})
}

// Callers without patience, and tools that are sometimes slow, are not overload.
func TestWhatIsSlowWithoutAQueueIsNotBounded(t *testing.T) {
	every := func(n int, slow time.Duration) func(context.Context, int) bool {
		return func(ctx context.Context, i int) bool {
			took := 10 * time.Millisecond
			if i%n == 0 {
				took = slow
			}
			timer := time.NewTimer(took)
			defer timer.Stop()
			select {
			case <-timer.C:
				return true
			case <-ctx.Done():
				return false
			}
		}
	}
	for name, test := range map[string]struct {
		n    int
		slow time.Duration
		good float64
	}{
		"a fifth never answers":    {5, time.Hour, 160},
		"a third never answers":    {3, time.Hour, 133},
		"half never answer":        {2, time.Hour, 100},
		"a twentieth":              {20, time.Hour, 190},
		"half of them take a long": {2, 900 * time.Millisecond, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAdaptive()
				if good := load(a, nil, 200, 20*time.Second, time.Second, every(test.n, test.slow)); good < 0.95*test.good {
					t.Errorf("%.0f/s of %.0f/s, bound %d", good, test.good, a.Bound())
				}
			})
		})
	}
}

// A caller who gives up before anything can be answered says nothing about a
// queue, and takes nothing from those who wait.
func TestOneImpatientCallerBoundsNobody(t *testing.T) {
	second := func(ctx context.Context, _ int) bool {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	hasty := func(every int) func(int) time.Duration {
		return func(n int) time.Duration {
			if every > 0 && n%every == 0 {
				return 10 * time.Millisecond
			}
			return 5 * time.Second
		}
	}
	for name, before := range map[string]int{"from the start": 10, "after a while": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAdaptive()
				loadOf(a, nil, 200, 20*time.Second, hasty(before), second)
				good := loadOf(a, nil, 200, 40*time.Second, hasty(10), second)
				if good < 0.95*180*38/40 { // the last second's calls are answered after the end
					t.Errorf("%.0f/s of 180/s, bound %d", good, a.Bound())
				}
			})
		})
	}
}

// Before the first answer nobody knows how long one takes. Who had given up by
// then, and was taken for the sign of a queue, bounds nobody once that is known.
func TestWhoGivesUpBeforeTheFirstAnswerBoundsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdaptive()
		enter := func() Pass {
			pass, ok := a.Enter()
			if !ok {
				t.Fatalf("refused, bound %d", a.Bound())
			}
			return pass
		}
		var waiting []Pass
		for range 40 {
			waiting = append(waiting, enter())
		}
		for _, pass := range waiting[:2*windowCalls] {
			time.Sleep(windowTime / windowCalls)
			pass.Late(10 * time.Millisecond)
			pass.Leave()
		}
		if a.Bound() == 0 {
			t.Fatal("nothing was bounded, so nothing is shown")
		}
		for _, pass := range waiting[2*windowCalls:] {
			pass.Leave()
		}
		// As many as may, and one more, all the time.
		for range 2 * windowCalls {
			var passes []Pass
			for a.Bound() == 0 && len(passes) < 40 || len(passes) < a.Bound() {
				passes = append(passes, enter())
			}
			if pass, ok := a.Enter(); ok {
				passes = append(passes, pass)
			}
			time.Sleep(time.Second)
			for _, pass := range passes {
				pass.Answered(time.Second)
				pass.Leave()
			}
		}
		if a.Bound() != 0 {
			t.Errorf("a bound of %d", a.Bound())
		}
	})
}

// A sidecar that starts before a backend which others have filled sees first
// answers that took longer than its hasty callers wait. They are not taken for
// the time that a call needs: as soon as the line is gone the hasty are served
// their share again, under five times the load too.
func TestABackendThatWasFullAtTheStart(t *testing.T) {
	const (
		capacity = 8 / 0.025 // calls per second
		every    = 2         // one call in so many is hasty
	)
	for name, backlog := range map[string]int{"no line": 0, "a line of a second": 320, "of three": 960, "of nine": 2880} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, q := NewAdaptive(), &queue{workers: make(chan struct{}, 8), service: 25 * time.Millisecond, blind: true}
				for range backlog {
					q.serving.Go(q.work) // the calls of others
				}
				synctest.Wait()
				const length = 60 * time.Second
				began := time.Now()
				var hasty atomic.Int64
				good := loadOf(a, NewBulkhead(256), 5*capacity, length, func(n int) time.Duration {
					if n%every == 0 {
						return 300 * time.Millisecond
					}
					return 3 * time.Second
				}, func(ctx context.Context, n int) bool {
					served := q.serve(ctx)
					if took := time.Since(began); served && n%every == 0 && took > length/2 && took <= length {
						hasty.Add(1)
					}
					return served
				})
				if good < 0.95*capacity {
					t.Errorf("%.0f/s of %.0f/s, bound %d", good, capacity, a.Bound())
				}
				// A tenth of all calls may be late, which is a fifth of the hasty ones.
				if share := float64(hasty.Load()) / (length / 2).Seconds(); share < 0.75*capacity/every {
					t.Errorf("%.0f/s of the hasty's %.0f/s, bound %d", share, capacity/every, a.Bound())
				}
				q.serving.Wait()
			})
		})
	}
}

// What was learned in bad times is forgotten in good ones.
func TestABoundThatIsNotNeededGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, q := NewAdaptive(), &queue{workers: make(chan struct{}, 8), service: 25 * time.Millisecond}
		slow := func(ctx context.Context, _ int) bool { return q.serve(ctx) }
		load(a, NewBulkhead(256), 1500, 5*time.Second, 500*time.Millisecond, slow)
		if a.Bound() == 0 {
			t.Fatal("five times too much, and no bound")
		}
		// The server got a hundred times the workers; the load has not gone.
		q.workers = make(chan struct{}, 800)
		if good := load(a, nil, 1500, 10*time.Second, 500*time.Millisecond, slow); good < 0.95*1500 {
			t.Errorf("%.0f/s of 1500/s, bound %d", good, a.Bound())
		}
	})
}

// What never answers is held to a few, and is not called overload.
func TestWhatNeverAnswersIsNoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdaptive()
		var overloads atomic.Int64
		load(a, NewBulkhead(256), 200, 15*time.Second, time.Second, func(ctx context.Context, _ int) bool {
			if pass, ok := a.Enter(); ok {
				if pass.Late(time.Second) {
					overloads.Add(1)
				}
				pass.Leave()
			}
			return false
		})
		if a.Bound() != fewest || overloads.Load() != 0 {
			t.Errorf("bound %d, %d times overload", a.Bound(), overloads.Load())
		}
	})
}

func TestLateAmongAnswersIsOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdaptive()
		var last Pass
		for range fewest {
			last, _ = a.Enter()
		}
		time.Sleep(time.Second)
		if last.Late(time.Second) {
			t.Error("nothing was answered meanwhile")
		}
		last.Answered(time.Second)
		time.Sleep(patientFor*time.Second - 1)
		if !last.Late(time.Second) {
			t.Error("something was answered a short while ago")
		}
		time.Sleep(time.Nanosecond)
		if last.Late(time.Second) {
			t.Error("what was answered was answered too long ago")
		}
		alone, _ := NewAdaptive().Enter()
		alone.Answered(time.Second)
		if alone.Late(time.Second) {
			t.Error("nobody else was in flight")
		}
	})
}

func TestNoAdaptive(t *testing.T) {
	var a *Adaptive
	pass, ok := a.Enter()
	if !ok || a.Bound() != 0 || pass.Late(time.Second) {
		t.Error("what nobody set bounds nothing")
	}
	pass.Answered(time.Second)
	pass.Leave()
}

func BenchmarkAdaptive(b *testing.B) {
	a := NewAdaptive()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if pass, ok := a.Enter(); ok {
				pass.Answered(time.Microsecond)
				pass.Leave()
			}
		}
	})
}
