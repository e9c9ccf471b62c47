package call_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// unrenewed is a store that cannot be reached when a claim is to be renewed.
type unrenewed struct{ dedupe.Store }

func (unrenewed) Renew(context.Context, dedupe.Renewal) (dedupe.Record, bool, error) {
	return dedupe.Record{}, false, errors.New("connection refused")
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
			s := calltest.NewOn(t, unrenewed{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, func(r *catalog.Route) {
				r.Tool.Policy.Deadline = 2 * time.Minute
			}))
			res := s.Call(calltest.Request("toolu_1", "refund"))
			if held := wait < 30*time.Second; held != (b.Calls.Load() == 2) || held == res.GetIsError() {
				t.Errorf("after %v: %d attempts, %s", wait, b.Calls.Load(), res.GetContent())
			}
		}
	})
}

// TestAClaimThatRunsOutOnTheWay: the backend asks once more when its connection
// is there, which may take longer than the lease. Nothing was sent then, and the
// backend is not to blame.
func TestAClaimThatRunsOutOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		b := calltest.Answers("ok")
		answer := b.Do
		b.Do = func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			time.Sleep(time.Minute) // a handshake; the lease is 30 s
			if withheld := in.Withheld(); withheld != nil {
				return tool.Reply{}, withheld
			}
			sent.Add(1)
			return answer(ctx, in)
		}
		for _, renewed := range []bool{false, true} {
			store := dedupe.Store(embedded.InMemory(embedded.Options{}))
			if !renewed {
				store = unrenewed{store}
			}
			s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, calltest.WithBreaker(1), func(r *catalog.Route) {
				r.Tool.Policy.AttemptTimeout = 2 * time.Minute
				r.Tool.Policy.Deadline = 5 * time.Minute
			}))
			for i := range 2 { // the breaker would open at one failure
				res := s.Call(calltest.Request(fmt.Sprint("toolu_", i), "refund"))
				switch {
				case renewed && res.GetIsError():
					t.Errorf("renewed: %s", res.GetContent())
				case !renewed && (calltest.Code(res) != tool.CodeStoreUnavailable || res.GetRecovery().GetAttempts() != 0):
					t.Errorf("not renewed: %d attempts, %s", res.GetRecovery().GetAttempts(), res.GetContent())
				}
			}
		}
		if n := sent.Load(); n != 2 {
			t.Errorf("%d requests were sent, want 2", n)
		}
	})
}
