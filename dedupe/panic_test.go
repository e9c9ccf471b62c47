package dedupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// buggy is a store that does its work and then panics, as often as it is told.
type buggy struct {
	dedupe.Store
	admits, settles, renews int
}

func (b *buggy) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	a, err := b.Store.Admit(ctx, req)
	trip(&b.admits)
	return a, err
}

func (b *buggy) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	v, err := b.Store.Settle(ctx, s)
	trip(&b.settles)
	return v, err
}

func (b *buggy) Renew(ctx context.Context, renewal dedupe.Renewal) (dedupe.Record, bool, error) {
	record, restored, err := b.Store.Renew(ctx, renewal)
	trip(&b.renews)
	return record, restored, err
}

func trip(times *int) {
	if *times > 0 {
		*times--
		panic("bug")
	}
}

// on runs f with a process on a store that panics, and another on a sound one.
func on(t *testing.T, bugs buggy, f func(t *testing.T, here, there *dedupe.Dedupe)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		bugs.Store = w
		here := dedupe.New(&bugs, dedupe.Options{Lease: time.Minute})
		f(t, here, there)
		if err := here.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A claim that a panic kept from being heard was never used: it must not stand
// in the way of the next try, and not make a call that never ran Unknown. The
// panic of giving it back ends nothing either.
func TestAClaimLostInAPanicIsGivenBack(t *testing.T) {
	on(t, buggy{admits: 1, settles: 1}, func(t *testing.T, here, there *dedupe.Dedupe) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent))
			t.Errorf("admitted: %v", err)
		}()
		time.Sleep(time.Second)
		settle(t, win(t, there, refund(tool.NonIdempotent)), dedupe.Done, "ok")
	})
}

// A panic while a lease is renewed, on a goroutine of its own, costs neither
// the process nor the claim.
func TestAPanicAtRenewalIsOneLostRenewal(t *testing.T) {
	on(t, buggy{renews: 2}, func(t *testing.T, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		time.Sleep(10 * time.Minute)
		if !claim.Held() {
			t.Error("the claim was lost")
		}
		expect(within(time.Second), t, there, refund(tool.NonIdempotent), dedupe.InFlight)
		settle(t, claim, dedupe.Done, "ok")
	})
}
