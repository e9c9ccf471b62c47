package dedupe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// late is a store whose server was stopped: a request fails, and is read all the
// same when the server goes on, after those that came later.
type late struct {
	dedupe.Store
	by time.Duration // 0: in time
}

func (l *late) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if l.by == 0 {
		return l.Store.Admit(ctx, req)
	}
	time.AfterFunc(l.by, func() { _, _ = l.Store.Admit(context.Background(), req) }) // nobody hears what comes of it
	return dedupe.Admission{}, errDown
}

// A request that arrives after its claim was given back makes a claim that
// nobody holds. It is found and given back again, long before its lease ends.
func TestAClaimThatIsMadeAfterItWasGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		store := &late{Store: w, by: 2500 * time.Millisecond}
		here := dedupe.New(store, dedupe.Options{Incarnation: "slow"})
		for _, id := range []string{"call_0", "call_1"} {
			request := refund(tool.NonIdempotent)
			request.Key.ID = id
			if _, claim, err := here.Admit(t.Context(), request); !errors.Is(err, errDown) || claim != nil {
				t.Fatalf("got %v", err)
			}
			time.Sleep(100 * time.Millisecond) // the second comes while the first is waited for
		}
		time.Sleep(2450 * time.Millisecond)
		if got, _ := w.Lookup(t.Context(), refund(0).Key); got.State != dedupe.Claimed {
			t.Fatalf("the late request has left %v", got.State)
		}
		time.Sleep(8 * time.Second)
		for _, id := range []string{"call_0", "call_1"} {
			request := refund(tool.NonIdempotent)
			request.Key.ID = id
			next := win(t, there, request)
			if next.Epoch() != 2 {
				t.Errorf("%s: epoch %d, want 2", id, next.Epoch())
			}
			settle(t, next, dedupe.Done, "ok")
		}
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
