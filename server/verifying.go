package server

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
)

const (
	// maxVerifications bounds the verifications under way, and those lately
	// made.
	maxVerifications = 1024
	// verificationPause is how long a verification that settled nothing speaks
	// for the next ones of the same call.
	verificationPause = time.Second
)

// verifications lets only one verification of a call be under way: the others
// who want to know wait for it. The zero value is ready.
type verifications struct {
	mu     sync.Mutex
	byCall map[callClaim]*verifying
}

// callClaim is one claim of a call: what is found of it holds for no other.
type callClaim struct {
	key   dedupe.Key
	epoch int64
}

// verifying is a verification under way, or lately made.
type verifying struct {
	done  chan struct{} // closed at its end, which publishes found
	found finding
	until time.Time // under the lock: when it is forgotten; zero while under way
}

// ask finds out what became of a call, together with whoever else asks.
func (e *Executor) ask(ctx context.Context, c *call, epoch int64) finding {
	claim := callClaim{c.key(), epoch}
	for {
		v, leads := e.verifications.join(claim)
		switch {
		case v == nil:
			return inconclusive("too many verifications are under way")
		case leads:
			return e.lead(ctx, c, claim, v)
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			return inconclusive("the time of the call is over: %w", context.Cause(ctx))
		}
		if !v.found.cancelled {
			return v.found
		}
	}
}

// lead makes the verification that others may wait for.
func (e *Executor) lead(ctx context.Context, c *call, claim callClaim, v *verifying) finding {
	v.found = e.inquire(ctx, c)
	v.found.cancelled = v.found.verdict == interpret.Inconclusive && ctx.Err() != nil
	e.verifications.end(claim, v)
	return v.found
}

// join returns the verification of a call, and whether the caller makes it; nil
// when there are too many.
func (t *verifications) join(claim callClaim) (v *verifying, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if v, ok := t.byCall[claim]; ok && (v.until.IsZero() || now.Before(v.until)) {
		return v, false
	}
	if len(t.byCall) >= maxVerifications && !t.forget(now) {
		return nil, false
	}
	if t.byCall == nil {
		t.byCall = make(map[callClaim]*verifying)
	}
	v = &verifying{done: make(chan struct{})}
	t.byCall[claim] = v
	return v, true
}

// forget drops what is over; false when that is nothing.
func (t *verifications) forget(now time.Time) bool {
	before := len(t.byCall)
	for claim, v := range t.byCall {
		if !v.until.IsZero() && !now.Before(v.until) {
			delete(t.byCall, claim)
		}
	}
	return len(t.byCall) < before
}

// end publishes what was found. What settles the call is of no further use, and
// its result may be large; the end of somebody's patience says nothing.
func (t *verifications) end(claim callClaim, v *verifying) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.found.verdict == interpret.Happened || v.found.cancelled {
		delete(t.byCall, claim)
	} else {
		v.until = time.Now().Add(verificationPause)
	}
	close(v.done)
}
