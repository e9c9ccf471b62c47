package breaker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A breaker that is reset lets calls through at once, and what was let through
// before tells it nothing, whichever way it ended.
func TestReset(t *testing.T) {
	for _, state := range []State{Closed, Open, HalfOpen} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []State
				b := New(Settings{Failures: 3, OpenFor: time.Minute, OnChange: func(_ string, _, to State) { told = append(told, to) }})
				var before []func(Outcome)
				for range 3 {
					done, err := b.Allow()
					if err != nil {
						t.Fatal(err)
					}
					before = append(before, done)
				}
				fail := 2
				if state != Closed {
					fail = 3
				}
				for range fail {
					done, err := b.Allow()
					if err != nil {
						t.Fatal(err)
					}
					done(Failure)
				}
				if state == HalfOpen {
					time.Sleep(time.Minute)
					done, err := b.Allow()
					if err != nil {
						t.Fatal(err)
					}
					before = append(before, done)
				}
				if got := b.State(); got != state {
					t.Fatalf("it is %v", got)
				}
				b.Reset()
				if got, left := b.State(), b.RetryAfter(); got != Closed || left != 0 {
					t.Errorf("after it: %v, %v left", got, left)
				}
				if state != Closed && told[len(told)-1] != Closed {
					t.Errorf("the listener heard %v", told)
				}
				for _, done := range before {
					done(Failure)
				}
				for range 2 { // with one of before it would be three
					done, err := b.Allow()
					if err != nil {
						t.Fatalf("refused after it: %v", err)
					}
					done(Failure)
				}
				if got := b.State(); got != Closed {
					t.Errorf("failures of before count: %v", got)
				}
				done, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				done(Failure)
				if _, err := b.Allow(); !refuses(err) {
					t.Errorf("it does not trip any more: %v", err)
				}
			})
		})
	}
}

// Resets among calls leave a breaker that works.
func TestResetsAmongCalls(t *testing.T) {
	b := New(Settings{Failures: 2, OpenFor: time.Nanosecond})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2000 {
				if i == 0 && n%10 == 0 {
					b.Reset()
				}
				if done, err := b.Allow(); err == nil {
					done([]Outcome{Failure, Success, Ignored, Failure}[(n+i)%4])
				}
				b.RetryAfter()
			}
		})
	}
	all.Wait()
	b.Reset()
	if done, err := b.Allow(); err != nil || b.State() != Closed {
		t.Errorf("%v, %v", b.State(), err)
	} else {
		done(Success)
	}
	(*Breaker)(nil).Reset()
}
