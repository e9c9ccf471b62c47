package limit

import (
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBulkheadRefusesWhenFull(t *testing.T) {
	b := NewBulkhead(2)
	var first, second, third Place
	if !b.Acquire(&first) {
		t.Fatal("the first call was refused")
	}
	if !b.Acquire(&second) {
		t.Fatal("the second call was refused")
	}
	if b.Acquire(&third) {
		t.Fatal("a third call got into a bulkhead of two")
	}
	if got := b.InFlight(); got != 2 {
		t.Errorf("%d in flight, want 2", got)
	}
	third.Leave() // which has none
	first.Leave()
	if !b.Acquire(&third) {
		t.Error("refused although a place was given back")
	}
}

// A place given back twice would let one call too many in, for good.
func TestBulkheadTakesAPlaceBackOnce(t *testing.T) {
	b := NewBulkhead(2)
	var place Place
	b.Acquire(&place)
	b.Acquire(&Place{})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(place.Leave)
	}
	callers.Wait()
	if got := b.InFlight(); got != 1 {
		t.Errorf("%d in flight after one place was given back eight times, want 1", got)
	}
}

func TestBulkheadHoldsUnderConcurrency(t *testing.T) {
	const places = 4
	b := NewBulkhead(places)
	var inside, entered atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 2_000 {
				var place Place
				if !b.Acquire(&place) {
					continue
				}
				if now := inside.Add(1); now > places {
					t.Errorf("%d of %d places in use", now, places)
				}
				entered.Add(1)
				inside.Add(-1)
				place.Leave()
			}
		})
	}
	callers.Wait()
	if entered.Load() == 0 {
		t.Error("nobody got in")
	}
	if got := b.InFlight(); got != 0 {
		t.Errorf("%d in flight after all have left", got)
	}
}

func TestBulkheadWithoutBound(t *testing.T) {
	for _, b := range []*Bulkhead{nil, NewBulkhead(0), NewBulkhead(-1)} {
		for range 1_000 {
			var place Place
			if !b.Acquire(&place) {
				t.Fatal("refused without a bound")
			}
			place.Leave()
			place.Leave()
		}
		if b.InFlight() != 0 {
			t.Errorf("in flight %d, want 0", b.InFlight())
		}
	}
}

func BenchmarkBulkhead(b *testing.B) {
	bulkhead := NewBulkhead(1_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var place Place
			if bulkhead.Acquire(&place) {
				place.Leave()
			}
		}
	})
}
