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
	"github.com/sidecall/sidecall/internal/tool"
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
	// Brief leaves out the cases that do not depend on how the store is reached, for
	// one that passes all of them when it is reached otherwise.
	Brief bool
	// CallsAlone leaves out the cases of conversations, for a store that keeps none.
	CallsAlone bool
}

// cases are the suite.
var cases = []struct {
	name string
	run  func(*suite)
	// brief: its outcome may be another one over another wire, with other rights, or
	// with the keys on several servers: it asks for every operation once, for large
	// values, in a crowd, or of several keys.
	brief bool
}{
	{"every row of the table", everyRow, false},
	{"a claim is re-entrant by its owner", reentrant, false},
	{"a lease runs out and its owner comes late", lateOwner, false},
	{"the owner's words for an unknown call", ownersWords, false},
	{"renewal outlives the lease and the retention", renewal, true},
	{"a forgotten claim is restored", restored, true},
	{"what is there is not overwritten by a restoration", notRestored, false},
	{"a claim is given back without its epoch", givenBack, false},
	{"a claim is given back after its lease, whichever it is", givenBackLate, false},
	{"a tool is declared anew", declaredAnew, false},
	{"records are forgotten after their retention", forgotten, false},
	{"one winner among many", oneWinner, true},
	{"settlement races expiry", settlementRacesExpiry, false},
	{"a crowd takes over an expired claim", takeover, true},
	{"the next incarnation decides at once", succession, true},
	{"one process is an instance at a time", tenures, true},
	{"keys do not run into each other", distinctKeys, true},
	{"results come back byte for byte", exactResults, true},
	{"times are the store's", times, true},
	{"charges stand in the record", charges, true},
	{"a prompt's calls have a ceiling", callsCeiling, false},
	{"what did not run is given back", givenBackToTallies, false},
	{"what changes hands is charged once", movedBetweenClaims, true},
	{"a prompt's tokens have a ceiling", tokensCeiling, false},
	{"a prompt's age has a ceiling", ageCeiling, false},
	{"tallies are forgotten after their retention", tallyForgotten, false},
	{"a ceiling holds against a crowd", crowdedCeiling, true},
	{"tallies are those of the state machine", tallyModel, false},
	{"logs keep their latest entries", logs, false},
	{"a log takes an entry once", logOnce, true},
	{"a refusal is noted unless the call is known", notes, true},
	{"a conversation has its own tallies and logs", ownTallies, true},
	{"an effect is had once", effectOnce, false},
	{"an effect is allowed to be had again", effectAllowed, false},
	{"an effect has a bound of holders", effectHolders, false},
	{"an effect counts for its window", effectWindow, false},
	{"an effect belongs to its conversation or tenant", effectScope, true},
	{"an effect that is refused costs nothing", effectCosts, false},
	{"an effect is had once by a crowd", effectCrowd, true},
	{"an effect is held by what is restored", effectRestored, true},
	{"a field is honoured", fields, false},
	{"outputs are kept and expire", outputs, true},
	{"outputs belong to their tenant", outputTenants, false},
	{"an output of a lost settlement is not kept", outputOfTheSuperseded, false},
	{"calls that wait for a person are listed", openCalls, true},
	{"calls are found by their terms", found, true},
	{"a call is found once, by its latest claim", foundOnce, false},
	{"what is forgotten is found as absent", foundForgotten, false},
	{"calls are found that were claimed since an instant", foundSince, false},
	{"many calls are found in pages", foundInPages, true},
	{"calls are found by their tenant alone", foundByTenant, false},
	{"calls are found by their conversation alone", foundByConversation, true},
	{"what was not admitted is found", foundRestored, true},
	{"calls are found while others are claimed", foundMeanwhile, true},
	{"settled effects leave receipts", receipts, true},
	{"receipts of a crowd are one chain", receiptsInACrowd, true},
	{"a call that others wait for is announced", watched, true},
	{"conversations are kept byte for byte", conversationsKept, true},
	{"a conversation is appended to where it ends", conversationsCompared, false},
	{"a conversation is appended to by one of many", conversationsRaced, true},
	{"conversations are their tenant's own", conversationsApart, false},
	{"conversations expire whole", conversationsExpire, true},
	{"a call is closed if it is as it was seen", closedAsSeen, true},
	{"a call is closed or run, and never both", closedOrRun, true},
	{"as many calls are closed at once as may be open", closedMany, true},
	{"what no store can accept is refused", invalid, false},
	{"an ended context is heeded", endedContext, true},
	{"a closed store says so", closed, true},
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
		if h.Brief && !c.brief {
			continue
		}
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			h.In(t, func(t *testing.T) {
				t.Helper()
				c.run(&suite{T: t, store: h.Open(t), lease: h.Lease, callsAlone: h.CallsAlone})
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
	if _, _, err := s.store.Renew(ctx, renews("x", "alice", 1, tool.ReadOnly)); err == nil {
		s.Error("Renew went on")
	}
	if _, err := Lookup(ctx, s.store, key("x")); err == nil {
		s.Error("Lookup went on")
	}
	if _, err := s.store.Note(ctx, note("x")); err == nil {
		s.Error("Note went on")
	}
	if _, err := s.store.Output(ctx, "acme", "ref"); err == nil {
		s.Error("Output went on")
	}
	if _, err := s.store.ListOpen(ctx, ""); err == nil {
		s.Error("ListOpen went on")
	}
	if _, err := s.store.Find(ctx, byTerm("x")); err == nil {
		s.Error("Find went on")
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
	if _, err := Lookup(s.Context(), s.store, key("x")); !isClosed(err) {
		s.Errorf("Lookup: got %v, want ErrClosed", err)
	}
	if _, err := s.store.Note(s.Context(), note("x")); !isClosed(err) {
		s.Errorf("Note: got %v, want ErrClosed", err)
	}
	if _, err := s.store.ListOpen(s.Context(), ""); !isClosed(err) {
		s.Errorf("ListOpen: got %v, want ErrClosed", err)
	}
	if _, err := s.store.Find(s.Context(), byTerm("x")); !isClosed(err) {
		s.Errorf("Find: got %v, want ErrClosed", err)
	}
	if err := s.store.Ping(s.Context()); !isClosed(err) {
		s.Errorf("Ping: got %v, want ErrClosed", err)
	}
}
