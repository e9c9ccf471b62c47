package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProbeDecides(t *testing.T) {
	t.Run("success closes", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			b.succeed(1)
			b.is(Closed)
			b.fail(failures - 1) // and everything before is forgotten
			b.is(Closed)
		})
	})
	t.Run("failure opens for the whole time again", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			time.Sleep(time.Hour) // nobody called
			b.fail(1)
			if got := b.refused().RetryAfter; got != openFor {
				t.Errorf("refused for %v, want %v", got, openFor)
			}
		})
	})
	t.Run("a cancelled probe decides nothing and hands its place on", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			b.ignore(100)
			b.is(HalfOpen)
			b.succeed(1)
			b.is(Closed)
		})
	})
	t.Run("done twice hands on one place", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			done := b.start()
			done(Ignored)
			done(Ignored)
			done(Failure)
			b.is(HalfOpen)
			b.start()
			b.refused()
		})
	})
}

func TestOneProbeAtATime(t *testing.T) {
	run(t, func(b *bench) {
		b.halfOpen()
		var probes atomic.Int64
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				done, err := b.Allow()
				if err != nil {
					return
				}
				probes.Add(1)
				time.Sleep(time.Second)
				done(Success)
			})
		}
		callers.Wait()
		if got := probes.Load(); got != 1 {
			t.Errorf("%d probes at once", got)
		}
		b.is(Closed)
	})
}

func TestRefusalDuringAProbeIsForAShortWhile(t *testing.T) {
	run(t, func(b *bench) {
		b.halfOpen()
		if got := b.RetryAfter(); got != 0 {
			t.Errorf("RetryAfter %v although the place of the probe is free", got)
		}
		done := b.start()
		for _, step := range []struct{ sleep, want time.Duration }{
			{0, time.Second},
			{probeTimeout - 300*time.Millisecond, 300 * time.Millisecond},
		} {
			time.Sleep(step.sleep)
			want := OpenError{Name: "shop", State: HalfOpen, RetryAfter: step.want}
			if got := *b.refused(); got != want {
				t.Errorf("refusal %+v, want %+v", got, want)
			}
			if got := b.RetryAfter(); got != step.want {
				t.Errorf("RetryAfter %v, want %v", got, step.want)
			}
		}
		time.Sleep(300 * time.Millisecond)
		if got := b.RetryAfter(); got != 0 {
			t.Errorf("RetryAfter %v although the probe has lost its place", got)
		}
		done(Ignored)
	})
}

func TestLostProbeDoesNotWedge(t *testing.T) {
	t.Run("the next call after its time is the probe", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			b.start() // and nothing more is heard of it
			time.Sleep(probeTimeout - time.Nanosecond)
			b.refused()
			time.Sleep(time.Nanosecond)
			b.succeed(1)
			b.is(Closed)
		})
	})
	t.Run("nor do a hundred of them", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			for range 100 {
				b.start()
				b.refused()
				time.Sleep(probeTimeout)
			}
			b.succeed(1)
			b.is(Closed)
		})
	})
	t.Run("a panic that takes the result along", func(t *testing.T) {
		run(t, func(b *bench) {
			b.halfOpen()
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				done := b.start()
				done(answerOf(func() Outcome { panic("boom") }))
			}()
			time.Sleep(probeTimeout)
			b.succeed(1)
			b.is(Closed)
		})
	})
	t.Run("by default all is well within twice the open time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{T: t, Breaker: New(Settings{OpenFor: openFor})}
			b.fail(DefaultFailures)
			tripped := time.Now()
			lost := false
			for b.State() != Closed {
				done, err := b.Allow()
				switch {
				case err != nil:
					time.Sleep(time.Millisecond)
				case !lost:
					lost = true
				default:
					done(Success)
				}
			}
			if took := time.Since(tripped); took > 2*openFor {
				t.Errorf("closed again after %v, want at most %v", took, 2*openFor)
			}
		})
	})
}

func TestLateResultOfAProbeThatLostItsPlace(t *testing.T) {
	// slow starts a probe and waits until it has lost its place to another.
	slow := func(b *bench) (first, second func(Outcome)) {
		b.halfOpen()
		first = b.start()
		time.Sleep(probeTimeout)
		return first, b.start()
	}
	t.Run("success closes, or slow backends would stay out for ever", func(t *testing.T) {
		run(t, func(b *bench) {
			first, second := slow(b)
			first(Success)
			b.is(Closed)
			second(Failure) // of the half-open time, which is over
			b.is(Closed)
		})
	})
	t.Run("failure opens", func(t *testing.T) {
		run(t, func(b *bench) {
			first, second := slow(b)
			first(Failure)
			b.is(Open)
			second(Success)
			b.is(Open)
		})
	})
	t.Run("nothing is said and no second place made", func(t *testing.T) {
		run(t, func(b *bench) {
			first, second := slow(b)
			first(Ignored)
			first(Failure)
			b.is(HalfOpen)
			b.refused()
			second(Success)
			b.is(Closed)
		})
	})
	t.Run("after the breaker has closed it is dropped", func(t *testing.T) {
		run(t, func(b *bench) {
			first, second := slow(b)
			second(Success)
			b.fail(failures - 1)
			first(Failure)
			b.is(Closed)
		})
	})
	t.Run("in the next half-open time it is dropped", func(t *testing.T) {
		run(t, func(b *bench) {
			first, second := slow(b)
			second(Failure)
			time.Sleep(openFor)
			third := b.start()
			first(Success)
			b.is(HalfOpen)
			b.refused()
			third(Success)
			b.is(Closed)
		})
	})
}

// answerOf makes a call.
func answerOf(backend func() Outcome) Outcome { return backend() }

// A backend whose every call takes longer than ProbeTimeout comes back too.
func TestSlowBackendRecovers(t *testing.T) {
	run(t, func(b *bench) {
		b.halfOpen()
		done := b.start()
		time.Sleep(5 * probeTimeout)
		b.refusedOrStarted()
		done(Success)
		b.is(Closed)
	})
}

// refusedOrStarted is a caller of whom nothing more is heard.
func (b *bench) refusedOrStarted() {
	b.Helper()
	if _, err := b.Allow(); err != nil {
		b.Logf("refused: %v", err)
	}
}

// Many callers that succeed, fail, cancel and get lost: whatever they do to each
// other, half-open must not be wedged, and no more than one fresh probe may run.
func TestBreakerSurvivesChaos(t *testing.T) {
	run(t, func(b *bench) {
		var callers sync.WaitGroup
		for i := range 32 {
			callers.Go(func() {
				for j := range 500 {
					done, err := b.Allow()
					time.Sleep(time.Duration(1+(i*31+j*17)%700) * time.Millisecond)
					switch {
					case err != nil, (i+j)%7 == 0: // refused, or lost
					case (i*j)%3 == 0:
						done(Success)
					case (i*j)%3 == 1:
						done(Ignored)
					default:
						done(Failure)
						done(Success)
					}
				}
			})
		}
		callers.Wait()
		time.Sleep(openFor + probeTimeout)
		b.succeed(1)
		b.is(Closed)
	})
}
