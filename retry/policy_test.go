package retry

import (
	"math"
	"testing"
	"time"
)

func TestCeilingGrowsUpToMax(t *testing.T) {
	usual := Policy{MaxAttempts: 3, Base: 250 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second}
	tests := []struct {
		name   string
		policy Policy
		n      int
		want   time.Duration
	}{
		{"after the first attempt it is base", usual, 1, 250 * time.Millisecond},
		{"then it doubles", usual, 2, 500 * time.Millisecond},
		{"and doubles", usual, 3, time.Second},
		{"just below max", usual, 6, 8 * time.Second},
		{"max", usual, 7, 10 * time.Second},
		{"max for ever", usual, math.MaxInt, 10 * time.Second},
		{"a fraction multiplies too", Policy{Base: time.Second, Multiplier: 1.5}, 3, 2250 * time.Millisecond},
		{"a base above max is cut", Policy{Base: time.Minute, Multiplier: 2, Max: time.Second}, 1, time.Second},
		{"without max the longest wait holds", Policy{Base: time.Second, Multiplier: 2}, 100, Longest},
		{"a max beyond the longest wait is cut", Policy{Base: time.Second, Multiplier: 2, Max: math.MaxInt64}, 100, Longest},
		{"a multiplier below one is one", Policy{Base: time.Second, Multiplier: 0.5}, 5, time.Second},
		{"so is one that is not a number", Policy{Base: time.Second, Multiplier: math.NaN()}, 5, time.Second},
		{"an infinite one reaches the cap", Policy{Base: time.Second, Multiplier: math.Inf(1), Max: time.Minute}, 2, time.Minute},
		{"no base, no wait", Policy{Multiplier: 2, Max: time.Second}, 3, 0},
		{"nothing precedes attempt one", usual, 0, 0},
		{"the zero policy", Policy{}, 1, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.policy.Ceiling(test.n); got != test.want {
				t.Errorf("Ceiling(%d) = %v, want %v", test.n, got, test.want)
			}
		})
	}
}

func TestJitterUsesTheWholeRange(t *testing.T) {
	const ceiling = time.Second
	var low, high int
	for range 10_000 {
		wait := jitter(ceiling)
		if wait < 0 || wait > ceiling {
			t.Fatalf("drew %v from [0, %v]", wait, ceiling)
		}
		if wait < ceiling/4 {
			low++
		}
		if wait > 3*ceiling/4 {
			high++
		}
	}
	// Of 10,000 uniform draws 2,500 are expected in each quarter, give or take
	// 43; a thousand off is not chance.
	if low < 1500 || low > 3500 || high < 1500 || high > 3500 {
		t.Errorf("of 10000 draws %d were in the lowest quarter and %d in the highest", low, high)
	}
}

func TestJitterOfNothingIsNothing(t *testing.T) {
	if got := jitter(0); got != 0 {
		t.Errorf("jitter(0) = %v", got)
	}
}
