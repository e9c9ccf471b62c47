package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRateSaysWhenToComeBack(t *testing.T) {
	tests := []struct {
		name      string
		perSecond float64
		burst     int
		wait      time.Duration
	}{
		{"one per second", 1, 1, time.Second},
		{"a burst of three", 1, 3, time.Second},
		{"four per second", 4, 2, 250 * time.Millisecond},
		{"three per second, which no clock divides", 3, 1, 333_333_334},
		{"one in ten minutes", 1.0 / 600, 1, 10 * time.Minute},
		{"one in a century", 1e-10, 1, 24 * time.Hour},
		{"a burst below one is one", 2, 0, 500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRate(test.perSecond, test.burst)
				for i := range max(test.burst, 1) {
					if wait, ok := r.Take(); !ok || wait != 0 {
						t.Fatalf("call %d of the burst: wait %v, ok %v", i+1, wait, ok)
					}
				}
				// However often one asks, the answer stays the same.
				for range 100 {
					if wait, ok := r.Take(); ok || wait != test.wait {
						t.Fatalf("wait %v, ok %v, want a refusal for %v", wait, ok, test.wait)
					}
				}
			})
		})
	}
}

func TestRateKeepsItsWord(t *testing.T) {
	for _, perSecond := range []float64{0.7, 1, 3, 7, 9.99, 1_000, 123_456.789} {
		synctest.Test(t, func(t *testing.T) {
			r := NewRate(perSecond, 1)
			for range 1_000 {
				wait, ok := r.Take()
				if ok {
					continue
				}
				time.Sleep(wait)
				if again, ok := r.Take(); !ok {
					t.Fatalf("%v per second: refused for %v after a wait of %v as told", perSecond, again, wait)
				}
			}
		})
	}
}

func TestRateHoldsInTheLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(100, 10)
		started := 0
		for range 10_000 { // 1,000 calls per second for ten seconds
			if _, ok := r.Take(); ok {
				started++
			}
			time.Sleep(time.Millisecond)
		}
		if started < 1_000 || started > 1_010 {
			t.Errorf("%d calls started in 10 s at 100 per second and a burst of 10", started)
		}
	})
}

func TestRateRefusesConcurrentCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(1, 50)
		var started atomic.Int64
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() {
				wait, ok := r.Take()
				if ok {
					started.Add(1)
				} else if wait <= 0 || wait > time.Second {
					t.Errorf("refused for %v", wait)
				}
			})
		}
		callers.Wait()
		if started.Load() != 50 {
			t.Errorf("%d calls started, want the burst of 50", started.Load())
		}
	})
}

func TestRateWithoutLimit(t *testing.T) {
	for _, r := range []*Rate{nil, NewRate(0, 5), NewRate(-1, 5), NewRate(math.NaN(), 5), NewRate(math.Inf(1), 5)} {
		for range 1_000 {
			if wait, ok := r.Take(); !ok || wait != 0 {
				t.Fatalf("wait %v, ok %v without a limit", wait, ok)
			}
		}
	}
}

func BenchmarkRateTake(b *testing.B) {
	r := NewRate(1e9, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		r.Take()
	}
}
