package retry

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// take asks for n retries and returns how many were granted.
func take(b *Budget, n int) (granted int) {
	for range n {
		if b.Retry() {
			granted++
		}
	}
	return granted
}

func request(b *Budget, n int) {
	for range n {
		b.requestAt(time.Now())
	}
}

func TestBudgetIsAShareOfTheRequestsOrTheFloor(t *testing.T) {
	tests := []struct {
		name     string
		requests int
		want     int
	}{
		{"no request: the floor", 0, 30},
		{"few requests: the floor", 100, 30},
		{"where the share meets the floor", 150, 30},
		{"above: the share", 155, 31},
		{"a fraction of a retry is none", 159, 31},
		{"many requests", 10_000, 2_000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(BudgetShare, BudgetFloor)
				request(b, test.requests)
				if got := take(b, 3_000); got != test.want {
					t.Errorf("%d retries granted, want %d", got, test.want)
				}
			})
		})
	}
}

func TestBudgetForgetsAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetShare, BudgetFloor)
		request(b, 1_000)
		if got := take(b, 500); got != 200 {
			t.Fatalf("%d retries granted, want 200", got)
		}
		time.Sleep(BudgetWindow - time.Second)
		if requests, retries := b.Recent(); requests != 1_000 || retries != 200 {
			t.Errorf("%d requests and %d retries remembered within the window", requests, retries)
		}
		time.Sleep(time.Second)
		if requests, retries := b.Recent(); requests != 0 || retries != 0 {
			t.Errorf("%d requests and %d retries remembered after the window", requests, retries)
		}
		if got := take(b, 500); got != 30 {
			t.Errorf("%d retries granted in a new window, want the floor", got)
		}
		time.Sleep(1_000 * time.Hour)
		if got := take(b, 500); got != 30 {
			t.Errorf("%d retries granted after six weeks of silence, want the floor", got)
		}
	})
}

func TestBudgetSlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetShare, BudgetFloor)
		total := 0
		for range 60 {
			request(b, 100)
			total += take(b, 100)
			time.Sleep(time.Second)
		}
		// 20 % of 6,000 requests. In the first two seconds the floor is more
		// than the share; the window then takes it back.
		if total != 1_200 {
			t.Errorf("%d retries for 6000 requests, want 1200", total)
		}
	})
}

// A refused retry must not use the budget up: callers that go on asking would
// starve each other.
func TestBudgetChargesNothingForARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetShare, BudgetFloor)
		take(b, 1_000_000)
		if _, retries := b.Recent(); retries != 30 {
			t.Errorf("%d retries counted, 30 granted", retries)
		}
	})
}

func TestBudgetIsNeverExceededByConcurrentCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetShare, BudgetFloor)
		var granted atomic.Int64
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 500 {
					b.requestAt(time.Now())
					if b.Retry() {
						granted.Add(1)
					}
				}
			})
		}
		callers.Wait()
		requests, retries := b.Recent()
		if requests != 8_000 {
			t.Errorf("%d requests counted, 8000 made", requests)
		}
		if got := granted.Load(); got != int64(retries) || got > 1_600 || got < 30 {
			t.Errorf("%d granted, %d counted, at most 1600 allowed", got, retries)
		}
	})
}

// A dead upstream under 1,000 calls per second for a minute is asked at most 1.2
// times per call, and never sooner than it wished.
func TestBudgetCapsWhatADeadUpstreamMustBear(t *testing.T) {
	const perSecond, seconds, wish = 1_000, 60, 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(BudgetShare, BudgetFloor)
		var attempts, early atomic.Int64
		var calls sync.WaitGroup
		for range perSecond * seconds {
			calls.Go(func() {
				var last time.Time
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				Do(ctx, usual, b, func(context.Context, int) Verdict {
					attempts.Add(1)
					if !last.IsZero() && time.Since(last) < wish {
						early.Add(1)
					}
					last = time.Now()
					return asksFor(wish)
				})
			})
			time.Sleep(time.Second / perSecond)
		}
		calls.Wait()
		if ratio := float64(attempts.Load()) / (perSecond * seconds); ratio > 1.2 || ratio < 1.15 {
			t.Errorf("%.4f attempts per call, want at most 1.2, and not much less", ratio)
		}
		if early.Load() != 0 {
			t.Errorf("%d attempts came before Retry-After", early.Load())
		}
	})
}

func TestNoBudgetGrantsEverything(t *testing.T) {
	var b *Budget
	b.requestAt(time.Now())
	if got := take(b, 1_000); got != 1_000 {
		t.Errorf("%d of 1000 granted", got)
	}
	if requests, retries := b.Recent(); requests != 0 || retries != 0 {
		t.Errorf("counted %d and %d", requests, retries)
	}
}

func TestBudgetCountsALateComerAsLateAsItIs(t *testing.T) {
	b := NewBudget(BudgetShare, BudgetFloor)
	b.requestAt(b.start.Add(BudgetWindow))
	b.requestAt(b.start) // took its time for a whole window before it came to count
	if got := b.sum().requests; got != 2 {
		t.Errorf("%d requests counted, want 2", got)
	}
}

func BenchmarkBudgetRequest(b *testing.B) {
	budget := NewBudget(BudgetShare, BudgetFloor)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			budget.requestAt(time.Now())
		}
	})
}
