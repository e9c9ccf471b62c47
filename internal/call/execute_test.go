package call_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func TestACallThatWorks(t *testing.T) {
	b := calltest.Answers(`{"id":"A-1","status":"paid"}`)
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	res := s.Call(calltest.Request("toolu_1", "get_order"))
	if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || res.GetContent() != `{"id":"A-1","status":"paid"}` {
		t.Fatalf("got %v %q", res.GetOutcome(), res.GetContent())
	}
	if !res.GetRecorded() || res.GetReplayed() {
		t.Errorf("recorded %v, replayed %v", res.GetRecorded(), res.GetReplayed())
	}
	if s.State("toolu_1") != dedupe.Done {
		t.Errorf("state %v", s.State("toolu_1"))
	}
}

// TestFailures walks the table of effects and failures: how often the backend
// is called, what the model is told, what the record says.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name    string
		effect  tool.Effect
		backend *calltest.Backend
		calls   int32
		code    tool.Code
		state   dedupe.State
	}{
		{"read-only, ambiguous: repeated", tool.ReadOnly, calltest.Fails(2, calltest.CutOff), 3, "", dedupe.Done},
		{"idempotent, ambiguous: repeated", tool.Idempotent, calltest.Fails(1, calltest.TimedOut), 2, "", dedupe.Done},
		{"keyed, ambiguous: repeated", tool.Keyed, calltest.Fails(1, calltest.CutOff), 2, "", dedupe.Done},
		{"read-only, exhausted: keeps the cause's code", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.CutOff), 3, tool.CodeDependencyUnavailable, dedupe.NotRun},
		{"non-idempotent, not executed: repeated", tool.NonIdempotent, calltest.Fails(2, calltest.Refused), 3, "", dedupe.Done},
		{"non-idempotent, not executed, exhausted", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused), 3, tool.CodeDependencyUnavailable, dedupe.NotRun},
		{"non-idempotent, ambiguous: unknown at once", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"non-idempotent, timeout: unknown", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.TimedOut), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"non-idempotent, cancelled in the middle: unknown", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Cancelled), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"definite: stored, not repeated", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.NotFound), 1, tool.CodeNotFound, dedupe.Done},
		{"retry-after that does not fit: at once", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.TooMany), 1, tool.CodeRateLimited, dedupe.NotRun},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := calltest.New(t, calltest.NewRoute(t, "do_it", test.effect, test.backend))
			res := s.Call(calltest.Request("toolu_1", "do_it"))
			if got := test.backend.Calls.Load(); got != test.calls {
				t.Errorf("%d attempts, want %d", got, test.calls)
			}
			if calltest.Code(res) != test.code {
				t.Errorf("code %q, want %q: %s", calltest.Code(res), test.code, res.GetContent())
			}
			if got := s.State("toolu_1"); got != test.state {
				t.Errorf("state %v, want %v", got, test.state)
			}
			if res.GetIsError() && res.GetRecovery().GetAttempts() != test.calls {
				t.Errorf("recovery.attempts %d, want %d", res.GetRecovery().GetAttempts(), test.calls)
			}
		})
	}
}

func TestExhaustedRetriesSayHowManyOverHowLong(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.CutOff)))
	res := s.Call(calltest.Request("toolu_1", "get_order"))
	if !res.GetRecovery().GetRetriesExhausted() || !strings.Contains(res.GetError().GetHint(), "3 attempts") {
		t.Errorf("exhausted %v, hint %q", res.GetRecovery().GetRetriesExhausted(), res.GetError().GetHint())
	}
}

// A blip that a retry absorbs is nothing that a model reads of: the response is that
// of a call without one.
func TestAnAbsorbedBlipIsNotTold(t *testing.T) {
	answer := func(b *calltest.Backend) *sidecallv1.ExecuteToolResponse {
		res := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b)).Call(calltest.Request("toolu_1", "get_order"))
		res.Duration = nil
		return res
	}
	blips := calltest.Fails(2, calltest.CutOff)
	after, without := answer(blips), answer(calltest.Fails(0, calltest.CutOff))
	if n := blips.Calls.Load(); n != 3 || !proto.Equal(after, without) {
		t.Errorf("after %d attempts:\n%v\nwithout a blip:\n%v", n, after, without)
	}
}

func TestEveryAttemptCarriesTheSameKey(t *testing.T) {
	b := calltest.Fails(2, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Keyed, b))
	s.Call(calltest.Request("toolu_1", "refund"))
	s.Call(calltest.Request("toolu_2", "refund"))
	if b.Keys[0] != b.Keys[1] || b.Keys[1] != b.Keys[2] {
		t.Errorf("keys of one call differ: %v", b.Keys[:3])
	}
	if b.Keys[3] == b.Keys[0] {
		t.Error("two calls share a key")
	}
}

func TestADuplicateGetsTheOriginalByteForByte(t *testing.T) {
	b := calltest.Answers(strings.Repeat("a long line\n", 4000))
	s := calltest.New(t, calltest.NewRoute(t, "get_log", tool.NonIdempotent, b))
	first := s.Call(calltest.Request("toolu_1", "get_log"))
	again := s.Call(calltest.Request("toolu_1", "get_log"))
	if !again.GetReplayed() {
		t.Error("not marked as a replay")
	}
	again.Replayed = false
	if !proto.Equal(first, again) {
		t.Errorf("the replay differs:\n%v\n%v", first, again)
	}
	if b.Calls.Load() != 1 {
		t.Errorf("%d executions", b.Calls.Load())
	}
}

func TestConcurrentDuplicatesRunOnce(t *testing.T) {
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte("charged")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			res := s.Execute(context.Background(), call.NewRequest("", calltest.Request("toolu_1", "refund")))
			if res.GetContent() != "charged" {
				t.Errorf("got %s", res.GetContent())
			}
		})
	}
	wg.Wait()
	if b.Calls.Load() != 1 {
		t.Errorf("%d executions", b.Calls.Load())
	}
}

func TestADuplicateOfARunningCallIsToldSoAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		started := make(chan struct{})
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			close(started)
			<-release
			return tool.Reply{Text: []byte("ok")}, nil
		}}
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
		done := make(chan *sidecallv1.ExecuteToolResponse)
		go func() {
			done <- s.Execute(context.Background(), call.NewRequest("", calltest.Request("toolu_1", "refund")))
		}()
		<-started
		req := calltest.Request("toolu_1", "refund")
		req.Timeout = durationpb.New(20 * time.Millisecond)
		if res := s.Call(req); calltest.Code(res) != tool.CodeInProgress {
			t.Errorf("got %s", res.GetContent())
		}
		close(release)
		if res := <-done; res.GetIsError() {
			t.Errorf("the first call: %s", res.GetContent())
		}
	})
}

func TestAnIDIsNotUsedTwice(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	s.Call(calltest.Request("toolu_1", "refund"))
	other := calltest.Request("toolu_1", "refund")
	other.ArgumentsJson = `{"order_id":"A-2"}`
	if res := s.Call(other); calltest.Code(res) != tool.CodeIDReused {
		t.Errorf("other arguments: %s", res.GetContent())
	}
	if res := s.Call(calltest.Request("toolu_1", "get_order")); calltest.Code(res) != tool.CodeIDReused || !strings.Contains(res.GetError().GetConstraint(), "refund") {
		t.Errorf("another tool: %s", res.GetContent())
	}
	same := calltest.Request("toolu_1", "refund")
	same.ArgumentsJson = "{ \"order_id\" :\n\"A-1\" }"
	if res := s.Call(same); !res.GetReplayed() {
		t.Errorf("the same arguments in other white space: %s", res.GetContent())
	}
}

func TestTheSameIDInAnotherTurnIsAnotherCall(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	s.Call(calltest.Request("call_0", "refund"))
	next := calltest.Request("call_0", "refund")
	next.TurnId = "t2"
	if res := s.Call(next); res.GetReplayed() || b.Calls.Load() != 2 {
		t.Errorf("replayed %v, %d executions", res.GetReplayed(), b.Calls.Load())
	}
}

// A model that repeats a call under another id makes another call.
func TestAnotherIDIsAnotherCall(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	s.Call(calltest.Request("toolu_1", "refund"))
	if res := s.Call(calltest.Request("toolu_2", "refund")); res.GetReplayed() || b.Calls.Load() != 2 {
		t.Errorf("replayed %v, %d executions", res.GetReplayed(), b.Calls.Load())
	}
}

func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	b := calltest.Fails(1, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "get_order" }))
	first := s.Call(calltest.Request("toolu_1", "refund"))
	again := s.Call(calltest.Request("toolu_1", "refund"))
	if calltest.Code(first) != tool.CodeOutcomeUnknown || calltest.Code(again) != tool.CodeOutcomeUnknown || b.Calls.Load() != 1 {
		t.Fatalf("%s, %s, %d executions", calltest.Code(first), calltest.Code(again), b.Calls.Load())
	}
	if !strings.Contains(first.GetError().GetHint(), "get_order") {
		t.Errorf("the hint does not name the tool that can tell: %s", first.GetError().GetHint())
	}
	if first.GetContent() != again.GetContent() {
		t.Errorf("told differently the second time:\n%s\n%s", first.GetContent(), again.GetContent())
	}
}

func TestInvalidArgumentsChangeNothing(t *testing.T) {
	b, store := calltest.Answers("ok"), newCountingStore()
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	for _, arguments := range []string{`{"order_id":7}`, `{}`, `{"order_id":"A-1","centz":3}`, `{"order_id"`, `[]`, `{"order_id":"A-1","order_id":"A-2"}`} {
		req := calltest.Request("toolu_1", "refund")
		req.ArgumentsJson = arguments
		res := s.Call(req)
		if calltest.Code(res) != tool.CodeInvalidArgs || len(res.GetViolations()) == 0 || !proto.Equal(res.GetViolations()[0], res.GetError()) {
			t.Errorf("%s: %s", arguments, res.GetContent())
		}
	}
	if n := b.Calls.Load() + store.admits.Load() + store.settles.Load(); n != 0 || store.lookups.Load() != 6 {
		t.Errorf("%d calls, admissions and settlements, and %d looks at 6 ids", n, store.lookups.Load())
	}
}

func TestAnUnknownToolNamesTheNearest(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	res := s.Call(calltest.Request("toolu_1", "get_ordr"))
	if calltest.Code(res) != tool.CodeUnknownTool || !strings.Contains(res.GetError().GetHint(), `Did you mean "get_order"?`) {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestAProfileLimitsTheTools(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b), calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	req := calltest.Request("toolu_1", "refund")
	req.Profile = "narrow"
	if res := s.Call(req); calltest.Code(res) != tool.CodePermissionDenied || b.Calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	req.Profile = "no_such"
	if res := s.Call(req); calltest.Code(res) != tool.CodePermissionDenied || !strings.Contains(res.GetContent(), "narrow") {
		t.Errorf("got %s", res.GetContent())
	}
	list, err := service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{Profile: "narrow"})
	if err != nil || len(list.GetTools()) != 1 || list.GetTools()[0].GetName() != "get_order" {
		t.Errorf("listed %v, %v", list.GetTools(), err)
	}
}

func TestValidateOnlyRunsNothing(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	req := calltest.Request("toolu_1", "refund")
	req.ValidateOnly = true
	if res := s.Call(req); res.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || b.Calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	req.ArgumentsJson = `{}`
	if res := s.Call(req); calltest.Code(res) != tool.CodeInvalidArgs {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestTheStoreIsDown(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeStoreUnavailable || b.Calls.Load() != 0 {
		t.Errorf("a tool with an effect: %s", res.GetContent())
	}
	if res := s.Call(calltest.Request("toolu_1", "get_order")); res.GetContent() != "ok" || res.GetRecorded() {
		t.Errorf("a read-only tool: %s, recorded %v", res.GetContent(), res.GetRecorded())
	}
	s.Limit(func(l *catalog.Limits) { l.RefuseUnrecorded = true })
	if res := s.Call(calltest.Request("toolu_1", "get_order")); calltest.Code(res) != tool.CodeStoreUnavailable {
		t.Errorf("a read-only tool, refused by config: %s", res.GetContent())
	}
}

// failedStore claims, and then its file is gone.
type failedStore struct {
	dedupe.Store
	failed atomic.Bool
}

var errFailed = &dedupe.FailedError{File: "/var/lib/sidecall/calls.db", Cause: errors.New("its file was removed")}

func (f *failedStore) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if f.failed.Load() {
		return dedupe.Admission{}, errFailed
	}
	return f.Store.Admit(ctx, req)
}

func (f *failedStore) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if f.failed.Load() {
		return 0, errFailed
	}
	return f.Store.Settle(ctx, s)
}

// A store that has failed does not come back: nobody waits for it, and the answer
// names the file that somebody has to see to.
func TestTheStoreHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failedStore{Store: embedded.InMemory(embedded.Options{})}
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			store.failed.Store(true)
			return tool.Reply{Text: []byte("charged")}, nil
		}}
		s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
		began := time.Now()
		if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetContent() != "charged" || res.GetRecorded() {
			t.Errorf("the call at work: %s, recorded %v", res.GetContent(), res.GetRecorded())
		}
		res := s.Call(calltest.Request("toolu_2", "refund"))
		if calltest.Code(res) != tool.CodeStoreUnavailable || b.Calls.Load() != 1 {
			t.Errorf("a tool with an effect: %s", res.GetContent())
		}
		for _, word := range []string{"calls.db", "operator", "same id"} {
			if !strings.Contains(res.GetContent(), word) {
				t.Errorf("%q is not in %s", word, res.GetContent())
			}
		}
		if res := s.Call(calltest.Request("toolu_1", "get_order")); res.GetContent() != "charged" || res.GetRecorded() {
			t.Errorf("a read-only tool: %s, recorded %v", res.GetContent(), res.GetRecorded())
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("somebody waited %v for it", waited)
		}
	})
}

func TestSettlementOutlivesTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		cancel() // the caller leaves while the tool runs, and the tool finishes
		return tool.Reply{Text: []byte("charged")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_1", "refund"))); !res.GetRecorded() {
		t.Errorf("not recorded: %s", res.GetContent())
	}
	if res := s.Call(calltest.Request("toolu_1", "refund")); !res.GetReplayed() || res.GetContent() != "charged" {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestACallCancelledBeforeItStartedDidNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_1", "refund"))); calltest.Code(res) != tool.CodeCancelled || b.Calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetContent() != "ok" {
		t.Errorf("sent again: %s", res.GetContent())
	}
}

func TestPanics(t *testing.T) {
	for _, test := range []struct {
		effect tool.Effect
		code   tool.Code
		state  dedupe.State
	}{
		{tool.ReadOnly, tool.CodeInternal, dedupe.NotRun},
		{tool.NonIdempotent, tool.CodeOutcomeUnknown, dedupe.Unknown},
	} {
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) { panic("a bug") }}
		s := calltest.New(t, calltest.NewRoute(t, "do_it", test.effect, b, calltest.WithBreaker(100)))
		res := s.Call(calltest.Request("toolu_1", "do_it"))
		if calltest.Code(res) != test.code || s.State("toolu_1") != test.state || b.Calls.Load() != 1 {
			t.Errorf("%v: %s, state %v, %d calls", test.effect, res.GetContent(), s.State("toolu_1"), b.Calls.Load())
		}
		if strings.Contains(res.GetContent(), "goroutine") || strings.Contains(res.GetContent(), "a bug") {
			t.Errorf("the model sees the stack: %s", res.GetContent())
		}
	}
}

func TestTheBulkheadRefuses(t *testing.T) {
	b := calltest.Answers("ok")
	full := limit.NewBulkhead(1)
	var place limit.Place
	full.Acquire(&place)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, func(r *catalog.Route) { r.Slots = full }))
	res := s.Call(calltest.Request("toolu_1", "refund"))
	if calltest.Code(res) != tool.CodeOverloaded || b.Calls.Load() != 0 || s.State("toolu_1") != dedupe.Absent {
		t.Errorf("got %s", res.GetContent())
	}
	place.Leave()
	if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetContent() != "ok" {
		t.Errorf("the same id, later: %s", res.GetContent())
	}
}

func TestAnOpenBreakerIsTerminal(t *testing.T) {
	b := calltest.Fails(calltest.Always, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b, calltest.WithBreaker(3)))
	s.Call(calltest.Request("toolu_1", "get_order")) // three attempts open it
	before := b.Calls.Load()
	res := s.Call(calltest.Request("toolu_2", "get_order"))
	if calltest.Code(res) != tool.CodeCircuitOpen || b.Calls.Load() != before || res.GetRecovery().GetRetryAfter() == nil {
		t.Errorf("got %s after %d more attempts", res.GetContent(), b.Calls.Load()-before)
	}
	if s.State("toolu_2") != dedupe.NotRun {
		t.Errorf("state %v", s.State("toolu_2"))
	}
}

func TestWhatNeverTripsABreaker(t *testing.T) {
	for name, failure := range map[string]tool.Failure{"4xx": calltest.NotFound, "cancel": calltest.Cancelled} {
		b := calltest.Fails(calltest.Always, failure)
		route := calltest.NewRoute(t, "get_order", tool.ReadOnly, b, calltest.WithBreaker(2))
		s := calltest.New(t, route)
		for i := range 10 {
			s.Call(calltest.Request("toolu_"+string(rune('a'+i)), "get_order"))
			req := calltest.Request("toolu_bad", "get_order")
			req.ArgumentsJson = `{"order_id":1}`
			s.Call(req)
		}
		if b.Calls.Load() != 10 {
			t.Errorf("%s: the breaker opened after %d calls", name, b.Calls.Load())
		}
	}
}

// brokenStore is a store that cannot be reached.
type brokenStore struct{}

var errDown = errors.New("connection refused")

func (brokenStore) Admit(context.Context, dedupe.Request) (dedupe.Admission, error) {
	return dedupe.Admission{}, errDown
}

func (brokenStore) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return 0, errDown
}

func (brokenStore) Note(context.Context, dedupe.Note) (dedupe.Known, error) {
	return dedupe.Known{}, errDown
}

func (brokenStore) Output(context.Context, string, string) (dedupe.Output, error) {
	return dedupe.Output{}, errDown
}

func (brokenStore) Renew(context.Context, dedupe.Renewal) (dedupe.Record, bool, error) {
	return dedupe.Record{}, false, errDown
}

func (brokenStore) Find(context.Context, dedupe.Search) (dedupe.Page, error) {
	return dedupe.Page{}, errDown
}

func (brokenStore) ListOpen(context.Context, string) (dedupe.Page, error) {
	return dedupe.Page{}, errDown
}

func (brokenStore) Now(context.Context) (time.Time, error) { return time.Time{}, errDown }
func (brokenStore) Ping(context.Context) error             { return errDown }
func (brokenStore) Close() error                           { return nil }

// forgetful is a store that admits and then goes down.
type forgetful struct{ dedupe.Store }

func (forgetful) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return 0, dedupe.ErrClosed
}

func TestAResultThatCannotBeRecordedSaysSo(t *testing.T) {
	s := calltest.NewOn(t, forgetful{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("charged")))
	res := s.Call(calltest.Request("toolu_1", "refund"))
	if res.GetContent() != "charged" || res.GetRecorded() {
		t.Errorf("got %s, recorded %v", res.GetContent(), res.GetRecorded())
	}
}

func TestAPartialResultTellsItemByItem(t *testing.T) {
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte("{\"items\":[{\"id\":\"A-1\",\"ok\":true},{\"id\":\"A-2\",\"ok\":false,\"why\":\"sold \\u001b[31mout\\u202e\"}]}"), JSON: true}, nil
	}}
	program, err := interpret.Compile(interpret.Config{Partial: &interpret.PartialRule{
		Items: "body.items", OK: "item.ok", Content: "item.id", Error: "item.why",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := calltest.New(t, calltest.NewRoute(t, "ship", tool.NonIdempotent, b, func(r *catalog.Route) { r.Program = program }))
	res := s.Call(calltest.Request("toolu_1", "ship"))
	items := res.GetItems()
	if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_PARTIAL || len(items) != 2 || !res.GetRecorded() {
		t.Fatalf("%v, %d items, recorded %v: %s", res.GetOutcome(), len(items), res.GetRecorded(), res.GetContent())
	}
	if !items[0].GetOk() || items[0].GetContent() != "A-1" || items[1].GetOk() {
		t.Errorf("items %v", items)
	}
	if text := items[1].String(); !strings.Contains(text, "sold out") || strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("not cleaned: %q", text)
	}
}
