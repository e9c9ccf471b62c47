// Package storetest is the conformance suite of dedupe.Store: what every store
// must do, in one place, run on each of them. Its oracle is the state machine
// of package dedupe itself; the store under test is asked the same questions,
// and has to give the same answers.
package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// Harness says how to run the suite on one kind of store.
type Harness struct {
	// Open returns an empty store. It is called once per case, and closes the
	// store at the end of the case.
	Open func(t testing.TB) dedupe.Store
	// In runs one case. nil runs it as it is; a store whose clock is the
	// process's runs it in a synctest bubble, so that leases pass at once.
	In func(t *testing.T, f func(*testing.T))
	// Lease is the short lease that the suite waits for. Default 200 ms; with
	// a real clock, long enough that a loaded machine does not outlast it
	// between two requests.
	Lease time.Duration
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.In == nil {
		h.In = func(t *testing.T, f func(*testing.T)) { t.Helper(); f(t) }
	}
	if h.Lease <= 0 {
		h.Lease = 200 * time.Millisecond
	}
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"every row of the table", everyRow},
		{"a claim is re-entrant by its owner", reentrant},
		{"a lease runs out and its owner comes late", lateOwner},
		{"the owner's words for an unknown call", ownersWords},
		{"renewal outlives the lease and the retention", renewal},
		{"a claim is given back without its epoch", givenBack},
		{"a tool is declared anew", declaredAnew},
		{"records are forgotten after their retention", forgotten},
		{"one winner among many", oneWinner},
		{"settlement races expiry", settlementRacesExpiry},
		{"a crowd takes over an expired claim", takeover},
		{"keys do not run into each other", distinctKeys},
		{"results come back byte for byte", exactResults},
		{"times are the store's", times},
		{"charges stand in the record", charges},
		{"a field is honoured or refused", fields},
		{"outputs are kept and expire", outputs},
		{"outputs belong to their tenant", outputTenants},
		{"an output of a lost settlement is not kept", outputOfTheSuperseded},
		{"unknown calls are listed", unknownCalls},
		{"a call that others wait for is announced", watched},
		{"what no store can accept is refused", invalid},
		{"an ended context is heeded", endedContext},
		{"a closed store says so", closed},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			h.In(t, func(t *testing.T) {
				t.Helper()
				c.run(&suite{T: t, store: h.Open(t), lease: h.Lease})
			})
		})
	}
}

// suite is one case on one store.
type suite struct {
	*testing.T
	store dedupe.Store
	lease time.Duration // short: to be waited for
}

const (
	long      = time.Hour // a lease that never runs out here
	retention = 24 * time.Hour
)

var fingerprint = [32]byte{1, 2, 3}

func key(id string) dedupe.Key {
	return dedupe.Key{Tenant: "acme", Conversation: "c-1", Turn: "4", ID: id}
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
	ok, err := s.store.Renew(s.Context(), key(id), owner, epoch, lease)
	if err != nil {
		s.Fatalf("Renew %q by %s: %v", id, owner, err)
	}
	return ok
}

func (s *suite) lookup(k dedupe.Key) dedupe.Record {
	s.Helper()
	record, err := s.store.Lookup(s.Context(), k)
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

func invalid(s *suite) {
	ctx := context.Background()
	noID := request("", "alice", tool.ReadOnly, long)
	if _, err := s.store.Admit(ctx, noID); !isInvalid(err) {
		s.Errorf("a request without an id: got %v", err)
	}
	if _, err := s.store.Settle(ctx, settlement("x", "alice", 1, dedupe.Claimed)); !isInvalid(err) {
		s.Errorf("a settlement as claimed: got %v", err)
	}
	if got := s.lookup(key("x")); got.State != dedupe.Absent {
		s.Errorf("a refused request left %v", got)
	}
}

func endedContext(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.store.Admit(ctx, request("x", "alice", tool.ReadOnly, long)); err == nil {
		s.Error("Admit went on")
	}
	if _, err := s.store.Settle(ctx, settlement("x", "alice", 1, dedupe.Done)); err == nil {
		s.Error("Settle went on")
	}
	if _, err := s.store.Renew(ctx, key("x"), "alice", 1, long); err == nil {
		s.Error("Renew went on")
	}
	if _, err := s.store.Lookup(ctx, key("x")); err == nil {
		s.Error("Lookup went on")
	}
	if _, err := s.store.Output(ctx, "acme", "ref"); err == nil {
		s.Error("Output went on")
	}
	if _, err := s.store.ListUnknown(ctx, ""); err == nil {
		s.Error("ListUnknown went on")
	}
	if err := s.store.Ping(ctx); err == nil {
		s.Error("Ping went on")
	}
}

func closed(s *suite) {
	if err := s.store.Ping(s.Context()); err != nil {
		s.Fatalf("Ping of an open store: %v", err)
	}
	if err := s.store.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	if err := s.store.Close(); err != nil {
		s.Errorf("Close of a closed store: %v", err)
	}
	if _, err := s.store.Admit(s.Context(), request("x", "alice", tool.ReadOnly, long)); !isClosed(err) {
		s.Errorf("Admit: got %v, want ErrClosed", err)
	}
	if _, err := s.store.Settle(s.Context(), settlement("x", "alice", 1, dedupe.Done)); !isClosed(err) {
		s.Errorf("Settle: got %v, want ErrClosed", err)
	}
	if _, err := s.store.Lookup(s.Context(), key("x")); !isClosed(err) {
		s.Errorf("Lookup: got %v, want ErrClosed", err)
	}
	if _, err := s.store.ListUnknown(s.Context(), ""); !isClosed(err) {
		s.Errorf("ListUnknown: got %v, want ErrClosed", err)
	}
	if err := s.store.Ping(s.Context()); !isClosed(err) {
		s.Errorf("Ping: got %v, want ErrClosed", err)
	}
}
