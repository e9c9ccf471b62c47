// Package storetest is the conformance suite of dedupe.Store: what every store
// must do, in one place, run on each of them. Its oracle is the state machine
// of package dedupe itself; the store under test is asked the same questions,
// and has to give the same answers.
package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

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

// cases are the suite.
var cases = []struct {
	name string
	run  func(*suite)
}{
	{"every row of the table", everyRow},
	{"a claim is re-entrant by its owner", reentrant},
	{"a lease runs out and its owner comes late", lateOwner},
	{"the owner's words for an unknown call", ownersWords},
	{"renewal outlives the lease and the retention", renewal},
	{"a forgotten claim is restored", restored},
	{"what is there is not overwritten by a restoration", notRestored},
	{"a claim is given back without its epoch", givenBack},
	{"a tool is declared anew", declaredAnew},
	{"records are forgotten after their retention", forgotten},
	{"one winner among many", oneWinner},
	{"settlement races expiry", settlementRacesExpiry},
	{"a crowd takes over an expired claim", takeover},
	{"the next incarnation decides at once", succession},
	{"one process is an instance at a time", tenures},
	{"keys do not run into each other", distinctKeys},
	{"results come back byte for byte", exactResults},
	{"times are the store's", times},
	{"charges stand in the record", charges},
	{"a prompt's calls have a ceiling", callsCeiling},
	{"what did not run is given back", givenBackToTallies},
	{"what changes hands is charged once", movedBetweenClaims},
	{"a prompt's tokens have a ceiling", tokensCeiling},
	{"a prompt's age has a ceiling", ageCeiling},
	{"tallies are forgotten after their retention", tallyForgotten},
	{"a ceiling holds against a crowd", crowdedCeiling},
	{"tallies are those of the state machine", tallyModel},
	{"logs keep their latest entries", logs},
	{"a log takes an entry once", logOnce},
	{"a refusal is noted unless the call is known", notes},
	{"a conversation has its own tallies and logs", ownSheets},
	{"an effect is had once", effectOnce},
	{"an effect is allowed to be had again", effectAllowed},
	{"an effect has a bound of holders", effectHolders},
	{"an effect counts for its window", effectWindow},
	{"an effect belongs to its conversation or tenant", effectScope},
	{"an effect that is refused costs nothing", effectCosts},
	{"an effect is had once by a crowd", effectCrowd},
	{"an effect is held by what is restored", effectRestored},
	{"a field is honoured or refused", fields},
	{"outputs are kept and expire", outputs},
	{"outputs belong to their tenant", outputTenants},
	{"an output of a lost settlement is not kept", outputOfTheSuperseded},
	{"unknown calls are listed", unknownCalls},
	{"a call that others wait for is announced", watched},
	{"what no store can accept is refused", invalid},
	{"an ended context is heeded", endedContext},
	{"a closed store says so", closed},
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
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			h.In(t, func(t *testing.T) {
				t.Helper()
				c.run(&suite{T: t, store: h.Open(t), lease: h.Lease})
			})
		})
	}
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
	nameless := request("x", "alice", tool.ReadOnly, long)
	nameless.Draw = dedupe.Draw{MaxCalls: 1}
	if _, err := s.store.Admit(ctx, nameless); !isInvalid(err) {
		s.Errorf("a ceiling of no counter: got %v", err)
	}
	crowded := note("x")
	crowded.Logs = make([]string, dedupe.MaxLogs+1)
	if _, err := s.store.Note(ctx, crowded); !isInvalid(err) {
		s.Errorf("a note of too many logs: got %v", err)
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
	if _, _, err := s.store.Restore(ctx, restoration("x", "alice", 1, tool.ReadOnly)); err == nil {
		s.Error("Restore went on")
	}
	if _, err := s.store.Lookup(ctx, key("x")); err == nil {
		s.Error("Lookup went on")
	}
	if _, err := s.store.Note(ctx, note("x")); err == nil {
		s.Error("Note went on")
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
	if _, err := s.store.Note(s.Context(), note("x")); !isClosed(err) {
		s.Errorf("Note: got %v, want ErrClosed", err)
	}
	if _, err := s.store.ListUnknown(s.Context(), ""); !isClosed(err) {
		s.Errorf("ListUnknown: got %v, want ErrClosed", err)
	}
	if err := s.store.Ping(s.Context()); !isClosed(err) {
		s.Errorf("Ping: got %v, want ErrClosed", err)
	}
}
