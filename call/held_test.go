package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/testkit/calltest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/tool"
)

// unrenewed is a store that cannot be reached when a claim is to be renewed.
type unrenewed struct{ dedupe.Store }

func (unrenewed) Renew(context.Context, dedupe.Key, string, int64, time.Duration) (bool, error) {
	return false, errors.New("connection refused")
}

// TestNothingIsSentUnderAClaimThatRanOut: another may have been told by then
// that nobody knows what became of the call, and an operator that it did not
// run.
func TestNothingIsSentUnderAClaimThatRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{20 * time.Second, 40 * time.Second} { // the lease is 30 s
			later := calltest.Refused
			later.RetryAfter = wait
			b := calltest.Fails(1, later)
			s := calltest.NewOn(t, unrenewed{memory.New(memory.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, func(r *catalog.Route) {
				r.Tool.Policy.Deadline = 2 * time.Minute
			}))
			res := s.Call(calltest.Request("toolu_1", "refund"))
			if held := wait < 30*time.Second; held != (b.Calls.Load() == 2) || held == res.GetIsError() {
				t.Errorf("after %v: %d attempts, %s", wait, b.Calls.Load(), res.GetContent())
			}
		}
	})
}
