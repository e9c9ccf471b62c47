package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Verdict is what the caller makes of one attempt.
type Verdict struct {
	// Again says that the attempt failed and may be repeated. False ends Do,
	// after a success as after a failure that must not be repeated.
	Again bool
	// After is how long the upstream asked to wait (Retry-After, gRPC
	// pushback), counted from the end of the attempt; 0 or less when it did
	// not ask.
	After time.Duration
}

// Reason says why Do stopped.
type Reason uint8

// The reasons to stop.
const (
	// StopDone: an attempt returned Again=false.
	StopDone Reason = iota
	// StopExhausted: all attempts of the policy were made.
	StopExhausted
	// StopBudgetEmpty: the backend's retry budget allows no more for now.
	StopBudgetEmpty
	// StopRetryAfter: the upstream asked for a wait that would outlast the
	// deadline. Report.After says how long.
	StopRetryAfter
	// StopDeadline: the deadline has passed, or would have by the end of the
	// next wait.
	StopDeadline
	// StopCancelled: ctx was cancelled.
	StopCancelled
)

var reasons = [...]string{
	StopDone:        "done",
	StopExhausted:   "exhausted",
	StopBudgetEmpty: "budget_empty",
	StopRetryAfter:  "retry_after",
	StopDeadline:    "deadline",
	StopCancelled:   "cancelled",
}

// String returns done, exhausted, budget_empty, retry_after, deadline or
// cancelled: fit for a log line or a metric label.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Report is what Do did.
type Report struct {
	// Attempts that were made; 0 only when ctx was over from the start.
	Attempts int
	// Elapsed is the time from the call of Do to its return, waits included.
	Elapsed time.Duration
	Stop    Reason
	// After is how long the upstream asked to wait, counted from the end of the
	// last attempt, when that attempt may be repeated: what to tell whoever
	// could call again. 0 when the upstream did not ask.
	After time.Duration
}

// Do calls attempt until it returns Again=false or something says that there
// shall not be another one. The first attempt is always made, unless ctx is
// already over. Attempts count from 1 and get ctx as it is; a timeout of each
// attempt is the caller's.
//
// ctx carries the total deadline. Do never waits for an attempt that could not
// be made: it stops at once when the next wait would end at or after the
// deadline. The upstream's wish is a lower bound: jitter is added to it, since
// all who were refused together were told the same time, but only while the
// sum fits in the deadline. Wishes above Longest are cut to it, and a ctx without
// a deadline counts as one that ends after Longest.
//
// b is the retry budget of the backend: the first attempt is counted in it,
// retries must be granted by it. nil means that there is none. A retry that was
// granted and then cancelled in its wait stays spent, which errs on the side of
// fewer retries.
//
// A panic of attempt passes through; Do holds nothing that it could leave
// behind.
func Do(ctx context.Context, p Policy, b *Budget, attempt func(ctx context.Context, n int) Verdict) Report {
	c := course{policy: p, budget: b, draw: jitter, start: time.Now()}
	for c.goesOn(ctx) {
		c.heard(ctx, attempt(ctx, c.report.Attempts))
	}
	return c.report
}

// course is Do between its attempts, with the drawing of waits in the test's hands.
type course struct {
	policy Policy
	budget *Budget
	draw   func(ceiling time.Duration) time.Duration
	start  time.Time
	over   bool
	report Report
}

// goesOn reports that there is an attempt, and counts it.
func (c *course) goesOn(ctx context.Context) bool {
	if c.report.Attempts == 0 {
		if c.report.Stop, c.over = ended(ctx); !c.over {
			c.budget.requestAt(c.start)
		}
	}
	if !c.over {
		c.report.Attempts++
	}
	return !c.over
}

// heard takes the verdict on an attempt, and waits for the next one if there is one.
func (c *course) heard(ctx context.Context, verdict Verdict) {
	if !verdict.Again {
		c.over, c.report.Elapsed = true, time.Since(c.start)
		return
	}
	after := min(max(verdict.After, 0), Longest)
	reason, stop := rest(ctx, c.policy, c.budget, c.report.Attempts, after, c.draw)
	if stop {
		c.over = true
		c.report.Elapsed, c.report.Stop, c.report.After = time.Since(c.start), reason, after
	}
}

// rest decides whether there is an attempt after attempt n, and waits for it.
// The budget is asked last, so that nothing is taken from it for a retry that
// something else forbids.
func rest(ctx context.Context, p Policy, b *Budget, n int, after time.Duration,
	draw func(ceiling time.Duration) time.Duration,
) (reason Reason, stop bool) {
	if reason, over := ended(ctx); over {
		return reason, true
	}
	if n >= p.MaxAttempts {
		return StopExhausted, true
	}
	left := Longest
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	if after > 0 && after >= left {
		return StopRetryAfter, true
	}
	wait := after + draw(p.Ceiling(n))
	if wait >= left {
		// The jitter is ours to give up; the upstream's wish is not.
		wait = after
		if after == 0 {
			return StopDeadline, true
		}
	}
	if !b.retryAt(time.Now()) {
		return StopBudgetEmpty, true
	}
	return pause(ctx, wait)
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, wait time.Duration) (reason Reason, over bool) {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ended(ctx)
}

// ended reports whether ctx is over, and why. The clock is asked too: a
// deadline that has passed may not have reached ctx's own timer yet.
func ended(ctx context.Context) (reason Reason, over bool) {
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return StopDeadline, true
		}
		return StopCancelled, true
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return StopDeadline, true
	}
	return StopDone, false
}
