package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// suite is one case on one store.
type suite struct {
	*testing.T
	store      dedupe.Store
	lease      time.Duration // short: to be waited for
	callsAlone bool          // see Harness

	passes int // calls that were claimed to see that time passes
}

const (
	long      = time.Hour // a lease that never runs out here
	retention = 24 * time.Hour
)

var fingerprint = [32]byte{1, 2, 3}

func key(id string) tool.CallID {
	return tool.CallID{Tenant: "acme", Conversation: "c-1", Turn: "4", ID: id}
}

func request(id, owner string, effect tool.Effect, lease time.Duration) dedupe.Request {
	return dedupe.Request{
		Key: key(id), Tool: "refund", Effect: effect, Fingerprint: fingerprint,
		Owner: owner, Lease: lease, Retention: retention,
	}
}

func settlement(id, owner string, epoch int64, state dedupe.State) dedupe.Settlement {
	return dedupe.Settlement{
		Key: key(id), Owner: owner, Epoch: epoch, State: state,
		Attempts: 3, Result: []byte("result of " + owner), Retention: retention,
	}
}

func (s *suite) admit(req dedupe.Request) dedupe.Admission {
	s.Helper()
	admission, err := s.store.Admit(s.Context(), req)
	if err != nil {
		s.Fatalf("Admit %q by %s: %v", req.Key.ID, req.Owner, err)
	}
	return admission
}

func (s *suite) settle(settles dedupe.Settlement) dedupe.SettleVerdict {
	s.Helper()
	verdict, err := s.store.Settle(s.Context(), settles)
	if err != nil {
		s.Fatalf("Settle %q by %s: %v", settles.Key.ID, settles.Owner, err)
	}
	return verdict
}

func (s *suite) renew(id, owner string, epoch int64, lease time.Duration) bool {
	s.Helper()
	ok, err := Renew(s.Context(), s.store, key(id), owner, epoch, lease)
	if err != nil {
		s.Fatalf("Renew %q by %s: %v", id, owner, err)
	}
	return ok
}

func (s *suite) lookup(k tool.CallID) dedupe.Record {
	s.Helper()
	record, err := Lookup(s.Context(), s.store, k)
	if err != nil {
		s.Fatalf("Lookup %q: %v", k.ID, err)
	}
	return record
}

// wantVerdict fails when an admission has another verdict.
func (s *suite) wantVerdict(got dedupe.Admission, want dedupe.Verdict) {
	s.Helper()
	if got.Verdict != want {
		s.Fatalf("got %v, want %v", got.Verdict, want)
	}
}

// await waits for time to pass on the store's clock, seen by what it makes of
// the store; a bubble's time passes at once.
func (s *suite) await(what string, reached func() bool) {
	s.Helper()
	for range 400 {
		if reached() {
			return
		}
		time.Sleep(s.lease / 10)
	}
	s.Fatalf("it never came to pass that %s", what)
}

// awaitState waits until the record of an id is observed in a state.
func (s *suite) awaitState(id string, want dedupe.State) {
	s.Helper()
	s.await(fmt.Sprintf("%q is %v", id, want), func() bool { return s.lookup(key(id)).State == want })
}

// sameRecord compares all but the instants, of which it compares only whether
// they are set.
func sameRecord(want, got dedupe.Record) string {
	instant := cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() })
	return cmp.Diff(want, got, instant, cmpopts.EquateEmpty())
}

// Renew asks a store for more time for a claim of a call that must not be repeated. It
// reports whether the owner has the claim.
func Renew(ctx context.Context, store dedupe.Store, key tool.CallID, owner string, epoch int64, lease time.Duration) (bool, error) {
	record, _, err := store.Renew(ctx, dedupe.Renewal{
		Key: key, Lease: lease, Retention: lease, Claim: dedupe.Origin{Record: dedupe.Record{Epoch: epoch, Owner: owner}},
	})
	return record.State == dedupe.Claimed && record.Owner == owner && record.Epoch == epoch, err
}

// Lookup looks at the record of a call.
func Lookup(ctx context.Context, store interface {
	Note(context.Context, dedupe.Note) (dedupe.Known, error)
}, key tool.CallID) (dedupe.Record, error) {
	seen, err := store.Note(ctx, dedupe.Note{Key: key})
	return seen.Record, err
}
