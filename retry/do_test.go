package retry

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var usual = Policy{MaxAttempts: 3, Base: 250 * time.Millisecond, Multiplier: 2, Max: 10 * time.Second}

// whole draws the ceiling itself, so that the clock can be predicted.
func whole(ceiling time.Duration) time.Duration { return ceiling }

// upstream answers attempts with verdicts, the last one over and over, and
// notes when it was asked. Each answer takes took.
type upstream struct {
	verdicts []Verdict
	took     time.Duration
	start    time.Time
	asked    []time.Duration
}

func answers(verdicts ...Verdict) *upstream {
	return &upstream{verdicts: verdicts, start: time.Now()}
}

func (u *upstream) attempt(_ context.Context, n int) Verdict {
	u.asked = append(u.asked, time.Since(u.start))
	time.Sleep(u.took)
	return u.verdicts[min(n, len(u.verdicts))-1]
}

var (
	again = Verdict{Again: true}
	final = Verdict{}
)

func asksFor(wait time.Duration) Verdict { return Verdict{Again: true, After: wait} }

// do is Do with the drawing of waits in the test's hands.
func do(ctx context.Context, p Policy, b *Budget, draw func(time.Duration) time.Duration, attempt func(context.Context, int) Verdict) Report {
	c := course{policy: p, budget: b, draw: draw, start: time.Now()}
	for c.goesOn(ctx) {
		c.heard(ctx, attempt(ctx, c.report.Attempts))
	}
	return c.report
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestDoStopsForAReason(t *testing.T) {
	const ms = time.Millisecond
	spent := func() *Budget {
		b := NewBudget(BudgetShare, BudgetFloor)
		for b.Retry() {
		}
		return b
	}
	tests := []struct {
		name     string
		policy   Policy
		deadline time.Duration
		took     time.Duration
		budget   func() *Budget
		verdicts []Verdict
		want     Report
		asked    []time.Duration
	}{
		{
			name: "success at the first try", policy: usual, deadline: time.Minute, took: 7 * ms,
			verdicts: []Verdict{final},
			want:     Report{Attempts: 1, Elapsed: 7 * ms, Stop: StopDone}, asked: []time.Duration{0},
		},
		{
			name: "success at the third try", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{again, again, final},
			want:     Report{Attempts: 3, Elapsed: 750 * ms, Stop: StopDone},
			asked:    []time.Duration{0, 250 * ms, 750 * ms},
		},
		{
			name: "a final answer leaves no wish behind", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{{Again: false, After: time.Second}},
			want:     Report{Attempts: 1, Stop: StopDone}, asked: []time.Duration{0},
		},
		{
			name: "all attempts failed", policy: usual, deadline: time.Minute, took: 10 * ms,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 3, Elapsed: 780 * ms, Stop: StopExhausted},
			asked:    []time.Duration{0, 260 * ms, 770 * ms},
		},
		{
			name: "one attempt is all", policy: Policy{MaxAttempts: 1, Base: time.Second}, deadline: time.Minute,
			verdicts: []Verdict{asksFor(time.Second)},
			want:     Report{Attempts: 1, Stop: StopExhausted, After: time.Second}, asked: []time.Duration{0},
		},
		{
			name: "the zero policy makes one attempt", deadline: time.Minute,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 1, Stop: StopExhausted}, asked: []time.Duration{0},
		},
		{
			name: "without a base there is no wait", policy: Policy{MaxAttempts: 3}, deadline: time.Minute,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 3, Stop: StopExhausted}, asked: []time.Duration{0, 0, 0},
		},
		{
			name: "the wish is a lower bound, with jitter on top", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{asksFor(2 * time.Second), final},
			want:     Report{Attempts: 2, Elapsed: 2250 * ms, Stop: StopDone},
			asked:    []time.Duration{0, 2250 * ms},
		},
		{
			name: "the jitter yields to the deadline, the wish does not", policy: usual, deadline: 2100 * ms,
			verdicts: []Verdict{asksFor(2 * time.Second), final},
			want:     Report{Attempts: 2, Elapsed: 2000 * ms, Stop: StopDone},
			asked:    []time.Duration{0, 2000 * ms},
		},
		{
			name: "a wish beyond the deadline fails at once", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{asksFor(2 * time.Minute)},
			want:     Report{Attempts: 1, Stop: StopRetryAfter, After: 2 * time.Minute}, asked: []time.Duration{0},
		},
		{
			name: "so does one that ends with the deadline", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{asksFor(time.Minute)},
			want:     Report{Attempts: 1, Stop: StopRetryAfter, After: time.Minute}, asked: []time.Duration{0},
		},
		{
			name: "what counts is the time that is left", policy: usual, deadline: time.Minute, took: 31 * time.Second,
			verdicts: []Verdict{asksFor(30 * time.Second)},
			want:     Report{Attempts: 1, Elapsed: 31 * time.Second, Stop: StopRetryAfter, After: 30 * time.Second},
			asked:    []time.Duration{0},
		},
		{
			name: "an absurd wish is cut", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{asksFor(1 << 62)},
			want:     Report{Attempts: 1, Stop: StopRetryAfter, After: Longest}, asked: []time.Duration{0},
		},
		{
			name: "a negative wish is none", policy: usual, deadline: time.Minute,
			verdicts: []Verdict{asksFor(-time.Hour), final},
			want:     Report{Attempts: 2, Elapsed: 250 * ms, Stop: StopDone}, asked: []time.Duration{0, 250 * ms},
		},
		{
			name: "a wait that does not fit is not begun", policy: usual, deadline: 600 * ms,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 2, Elapsed: 250 * ms, Stop: StopDeadline}, asked: []time.Duration{0, 250 * ms},
		},
		{
			name: "nor is one that ends with the deadline", policy: usual, deadline: 250 * ms,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 1, Stop: StopDeadline}, asked: []time.Duration{0},
		},
		{
			name: "the attempt used the deadline up", policy: usual, deadline: time.Second, took: time.Second,
			verdicts: []Verdict{again},
			want:     Report{Attempts: 1, Elapsed: time.Second, Stop: StopDeadline}, asked: []time.Duration{0},
		},
		{
			name: "an empty budget stops before the wait", policy: usual, deadline: time.Minute, budget: spent,
			verdicts: []Verdict{asksFor(time.Second)},
			want:     Report{Attempts: 1, Stop: StopBudgetEmpty, After: time.Second}, asked: []time.Duration{0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var budget *Budget
				if test.budget != nil {
					budget = test.budget()
				}
				up := answers(test.verdicts...)
				up.took = test.took
				got := do(within(t, test.deadline), test.policy, budget, whole, up.attempt)
				if got != test.want {
					t.Errorf("report %+v, want %+v", got, test.want)
				}
				if !slices.Equal(up.asked, test.asked) {
					t.Errorf("asked at %v, want %v", up.asked, test.asked)
				}
			})
		})
	}
}

func TestDoWaitsBelowTheCeilings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest [2]time.Duration
		for range 200 {
			up := answers(again)
			if got := Do(t.Context(), usual, nil, up.attempt); got.Stop != StopExhausted || got.Attempts != 3 {
				t.Fatalf("report %+v", got)
			}
			for i := range longest {
				wait := up.asked[i+1] - up.asked[i]
				if wait > usual.Ceiling(i+1) {
					t.Fatalf("waited %v after attempt %d, ceiling %v", wait, i+1, usual.Ceiling(i+1))
				}
				longest[i] = max(longest[i], wait)
			}
		}
		for i, wait := range longest {
			if wait < usual.Ceiling(i+1)/2 {
				t.Errorf("of 200 waits after attempt %d none was above %v", i+1, wait)
			}
		}
	})
}

func TestDoMakesNoAttemptWhenItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for want, ctx := range map[Reason]context.Context{StopCancelled: cancelled, StopDeadline: late} {
			budget := NewBudget(BudgetShare, BudgetFloor)
			up := answers(final)
			if got := Do(ctx, usual, budget, up.attempt); got != (Report{Stop: want}) {
				t.Errorf("report %+v, want reason %v and no attempt", got, want)
			}
			if requests, _ := budget.Recent(); len(up.asked) != 0 || requests != 0 {
				t.Errorf("asked %d times, %d requests in the budget", len(up.asked), requests)
			}
		}
	})
}

// stalled is a context whose own timer has not fired yet although its deadline
// has passed, as happens on a machine under load.
type stalled struct{ context.Context }

func (stalled) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestDoBelievesTheClockBeforeTheContext(t *testing.T) {
	up := answers(final)
	got := Do(stalled{t.Context()}, usual, nil, up.attempt)
	if got.Stop != StopDeadline || got.Attempts != 0 || len(up.asked) != 0 {
		t.Errorf("report %+v after a deadline that has passed", got)
	}
}

func TestDoEndsItsWaitWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		up := answers(asksFor(time.Hour))
		want := Report{Attempts: 1, Elapsed: time.Second, Stop: StopCancelled, After: time.Hour}
		if got := do(ctx, usual, nil, whole, up.attempt); got != want {
			t.Errorf("report %+v, want %+v", got, want)
		}
	})
}

func TestDoStopsWhenAnAttemptWasCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got := Do(ctx, usual, nil, func(context.Context, int) Verdict {
			cancel()
			return again
		})
		if got != (Report{Attempts: 1, Stop: StopCancelled}) {
			t.Errorf("report %+v", got)
		}
	})
}

func TestDoCountsInTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(BudgetShare, BudgetFloor)
		for range 4 {
			do(t.Context(), usual, budget, whole, answers(again).attempt)
		}
		if requests, retries := budget.Recent(); requests != 4 || retries != 8 {
			t.Errorf("%d requests and %d retries, want 4 and 8", requests, retries)
		}
	})
}

func TestDoTakesNothingForARetryThatIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(BudgetShare, BudgetFloor)
		do(within(t, time.Second), usual, budget, whole, answers(asksFor(time.Hour)).attempt)
		do(within(t, 100*time.Millisecond), usual, budget, whole, answers(again).attempt)
		do(t.Context(), Policy{MaxAttempts: 1}, budget, whole, answers(again).attempt)
		if requests, retries := budget.Recent(); requests != 3 || retries != 0 {
			t.Errorf("%d requests and %d retries, want 3 and 0", requests, retries)
		}
	})
}

func TestDoLetsAPanicThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v", got)
			}
		}()
		Do(t.Context(), usual, NewBudget(BudgetShare, BudgetFloor), func(context.Context, int) Verdict { panic("boom") })
	})
}

func TestReasonsHaveNames(t *testing.T) {
	want := map[Reason]string{
		StopDone: "done", StopExhausted: "exhausted", StopBudgetEmpty: "budget_empty",
		StopRetryAfter: "retry_after", StopDeadline: "deadline", StopCancelled: "cancelled", 99: "reason(99)",
	}
	for reason, name := range want {
		if reason.String() != name {
			t.Errorf("%d is %q, want %q", uint8(reason), reason, name)
		}
	}
}

func BenchmarkDoFirstTry(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	budget := NewBudget(BudgetShare, BudgetFloor)
	attempts := 0
	b.ReportAllocs()
	for b.Loop() {
		Do(ctx, usual, budget, func(context.Context, int) Verdict {
			attempts++
			return final
		})
	}
}
