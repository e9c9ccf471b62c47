// Package retry repeats what failed, as often and as late as is good for the
// one who waits and for the one who is asked.
//
// It knows functions and durations, no domain types: whether a failure may be
// repeated at all is the caller's knowledge, and the caller says so in a
// Verdict. What is decided here is how often, how late, and when waiting is
// pointless.
//
//	          ┌──────────── the deadline of ctx bounds all of it ────────────┐
//	Do ──▶ attempt 1 ─ wait ─▶ attempt 2 ─── wait ───▶ attempt 3 ──▶ Report
//	          │         ▲          │           ▲           │
//	          │         │          │           │           └ MaxAttempts: StopExhausted
//	          │         │          │           └ drawn from [0, Base×Multiplier]
//	          │         └ drawn from [0, Base], plus the upstream's Retry-After
//	          └ Again=false: StopDone
//
// Before each wait, in this order:
//
//	is ctx over?                       StopCancelled, StopDeadline
//	were that all the attempts?        StopExhausted
//	does Retry-After end too late?     StopRetryAfter
//	does the drawn wait end too late?  StopDeadline
//	is the backend's budget empty?     StopBudgetEmpty
//
// Each of these stops at once. A wait that cannot lead to an attempt holds the
// caller for nothing; so none is begun.
//
// # Jitter
//
// Waits are drawn uniformly between zero and a ceiling that grows
// exponentially ("full jitter"): callers that failed together must not come
// back together. Of the usual variants it gets a herd through with the fewest
// calls (AWS Architecture Blog, "Exponential Backoff And Jitter").
//
// # One layer
//
// This is the only place where Sidecall repeats an attempt. Layers of retries
// multiply (three layers of three are 27 attempts), and a layer below this one
// does not know whether the call may be repeated. docs/adr/0004 lists what is
// switched off for that.
//
// The package starts no goroutine. The result of the last attempt stays in the
// caller's closure, so no type passes through here.
package retry
