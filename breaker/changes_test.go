package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreToldInOrder(t *testing.T) {
	run(t, func(b *bench) {
		b.halfOpen()
		b.fail(1)
		time.Sleep(openFor)
		b.succeed(1)
		want := []string{
			"shop: closed → open",
			"shop: open → half-open",
			"shop: half-open → open",
			"shop: open → half-open",
			"shop: half-open → closed",
		}
		if diff := cmp.Diff(want, b.changes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOnChangeMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []State
		b = New(Settings{Failures: 1, OpenFor: openFor, OnChange: func(_ string, _, to State) {
			if got := b.State(); got != to {
				t.Errorf("State() %v within the change to %v", got, to)
			}
			b.RetryAfter()
			if to == HalfOpen {
				// A listener that is the probe: the change that this makes is
				// told after this one.
				done, err := b.Allow()
				if err != nil {
					t.Errorf("refused within the change: %v", err)
					return
				}
				done(Success)
			} else if _, err := b.Allow(); to == Open != refuses(err) {
				t.Errorf("Allow within the change to %v: %v", to, err)
			}
			seen = append(seen, to)
		}})
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(Failure)
		time.Sleep(openFor)
		if got := b.State(); got != HalfOpen {
			t.Errorf("State() %v when it was asked, want half-open", got)
		}
		if diff := cmp.Diff([]State{Open, HalfOpen, Closed}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOnChangeIsNotCalledConcurrentlyAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enter, leave := make(chan State), make(chan struct{})
		b := &bench{T: t, Breaker: New(Settings{Failures: 1, OpenFor: openFor, OnChange: func(_ string, _, to State) {
			enter <- to
			<-leave
		}})}
		go b.fail(1)
		if got := <-enter; got != Open {
			t.Fatalf("change to %v", got)
		}
		// The listener is busy. All the others go on.
		time.Sleep(openFor)
		b.is(HalfOpen)
		b.succeed(1)
		b.is(Closed)
		for _, want := range []State{HalfOpen, Closed} {
			leave <- struct{}{}
			if got := <-enter; got != want {
				t.Errorf("told of %v, want %v", got, want)
			}
		}
		leave <- struct{}{}
	})
}

// A listener that never returns must not cost memory for ever.
func TestChangesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type step struct{ From, To State }
		var told []step
		release := make(chan struct{})
		b := &bench{T: t, Breaker: New(Settings{Failures: 1, OpenFor: openFor, OnChange: func(_ string, from, to State) {
			if len(told) == 0 {
				<-release
			}
			told = append(told, step{from, to})
		}})}
		go b.fail(1)
		synctest.Wait()
		for range 100 {
			time.Sleep(openFor)
			b.fail(1)
		}
		close(release)
		synctest.Wait()
		if len(told) != maxChanges+1 {
			t.Errorf("told of %d changes, want %d", len(told), maxChanges+1)
		}
		at := Closed
		for i, step := range told {
			if step.From != at {
				t.Errorf("change %d starts at %v, the one before ended at %v", i, step.From, at)
			}
			at = step.To
		}
		if at != Open {
			t.Errorf("the last change told leads to %v, the breaker is open", at)
		}
	})
}

func TestOnChangeThatPanicsBreaksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panicking := true
		var told []State
		b := &bench{T: t, Breaker: New(Settings{Failures: 1, OpenFor: openFor, OnChange: func(_ string, _, to State) {
			if panicking {
				panic("listener")
			}
			told = append(told, to)
		}})}
		func() {
			defer func() {
				if got := recover(); got != "listener" {
					t.Errorf("recovered %v", got)
				}
			}()
			b.fail(1)
		}()
		panicking = false
		time.Sleep(openFor)
		b.succeed(1)
		if diff := cmp.Diff([]State{HalfOpen, Closed}, told); diff != "" {
			t.Error(diff)
		}
	})
}
