package dedupe

import (
	"context"
	"strings"
	"time"
)

// fenced is a store that is asked to change something only while its process is
// surely the only one of its instance. It can still be looked into.
type fenced struct {
	Store

	fence *fence
}

// Admit implements Store. Without a tenure a known call is answered from its
// record, and nothing is claimed.
func (s fenced) Admit(ctx context.Context, req Request) (Admission, error) {
	if err := s.fence.mayClaim(ctx, req.Owner); err != nil {
		return Recall(ctx, s.Store, req, err)
	}
	return s.Store.Admit(ctx, req)
}

// mayClaim says why an owner may claim nothing; nil while the tenure holds, and where
// nothing is fenced.
func (f *fence) mayClaim(ctx context.Context, owner string) error {
	if f == nil {
		return nil
	}
	err := f.check()
	if err != nil {
		err = f.await(ctx)
	}
	if err == nil && strings.HasPrefix(owner, f.options.Incarnation) {
		err = ErrUnconfirmed // it was when this owner was made
	}
	return err
}

// Recall answers a request from the record alone, and with the error because where
// something would be claimed, or changed.
func Recall(ctx context.Context, store Store, req Request, because error) (Admission, error) {
	record, err := store.Lookup(ctx, req.Key)
	if err != nil {
		return Admission{}, err
	}
	record, verdict, changed := record.Admit(req, record.StartedAt)
	if changed || verdict == Won {
		return Admission{}, because
	}
	return Admission{Verdict: verdict, Record: record}, nil
}

// Settle implements Store. To give a claim back that nobody heard of takes no tenure:
// that nothing was sent under it is true whoever is this instance now.
func (s fenced) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	if err := s.fence.check(); err != nil && settlement.Epoch != 0 {
		return 0, err
	}
	return s.Store.Settle(ctx, settlement)
}

// Renew implements Store.
func (s fenced) Renew(ctx context.Context, key Key, owner string, epoch int64, lease time.Duration) (bool, error) {
	if err := s.fence.check(); err != nil {
		return false, err
	}
	return s.Store.Renew(ctx, key, owner, epoch, lease)
}

// Restore implements Store.
func (s fenced) Restore(ctx context.Context, back Restoration) (record Record, restored bool, err error) {
	if err := s.fence.check(); err != nil {
		return Record{}, false, err
	}
	return s.Store.Restore(ctx, back)
}

// Ping implements Store: without a tenure it can serve nothing with an effect.
func (s fenced) Ping(ctx context.Context) error {
	if err := s.Store.Ping(ctx); err != nil {
		return err
	}
	return s.fence.check()
}
