package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

func TestACallThatWorks(t *testing.T) {
	b := answers(`{"id":"A-1","status":"paid"}`)
	s := newSidecar(t, newRoute(t, "get_order", tool.ReadOnly, b))
	res := s.call(request("toolu_1", "get_order"))
	if res.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || res.GetContent() != `{"id":"A-1","status":"paid"}` {
		t.Fatalf("got %v %q", res.GetOutcome(), res.GetContent())
	}
	if !res.GetRecorded() || res.GetReplayed() {
		t.Errorf("recorded %v, replayed %v", res.GetRecorded(), res.GetReplayed())
	}
	if s.state("toolu_1") != dedupe.Done {
		t.Errorf("state %v", s.state("toolu_1"))
	}
}

// TestFailures walks the table of effects and failures: how often the backend
// is called, what the model is told, what the record says.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name    string
		effect  tool.Effect
		backend *fakeBackend
		calls   int32
		code    tool.Code
		state   dedupe.State
	}{
		{"read-only, ambiguous: repeated", tool.ReadOnly, fails(2, cutOff), 3, "", dedupe.Done},
		{"idempotent, ambiguous: repeated", tool.Idempotent, fails(1, timedOut), 2, "", dedupe.Done},
		{"keyed, ambiguous: repeated", tool.Keyed, fails(1, cutOff), 2, "", dedupe.Done},
		{"read-only, exhausted: keeps the cause's code", tool.ReadOnly, fails(always, cutOff), 3, tool.CodeDependencyUnavailable, dedupe.NotRun},
		{"non-idempotent, not executed: repeated", tool.NonIdempotent, fails(2, refused), 3, "", dedupe.Done},
		{"non-idempotent, not executed, exhausted", tool.NonIdempotent, fails(always, refused), 3, tool.CodeDependencyUnavailable, dedupe.NotRun},
		{"non-idempotent, ambiguous: unknown at once", tool.NonIdempotent, fails(always, cutOff), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"non-idempotent, timeout: unknown", tool.NonIdempotent, fails(always, timedOut), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"non-idempotent, cancelled in the middle: unknown", tool.NonIdempotent, fails(always, cancelled), 1, tool.CodeOutcomeUnknown, dedupe.Unknown},
		{"definite: stored, not repeated", tool.ReadOnly, fails(always, notFound), 1, tool.CodeNotFound, dedupe.Done},
		{"retry-after that does not fit: at once", tool.ReadOnly, fails(always, tooMany), 1, tool.CodeRateLimited, dedupe.NotRun},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSidecar(t, newRoute(t, "do_it", test.effect, test.backend))
			res := s.call(request("toolu_1", "do_it"))
			if got := test.backend.calls.Load(); got != test.calls {
				t.Errorf("%d attempts, want %d", got, test.calls)
			}
			if code(res) != test.code {
				t.Errorf("code %q, want %q: %s", code(res), test.code, res.GetContent())
			}
			if got := s.state("toolu_1"); got != test.state {
				t.Errorf("state %v, want %v", got, test.state)
			}
			if res.GetIsError() && res.GetRecovery().GetAttempts() != test.calls {
				t.Errorf("recovery.attempts %d, want %d", res.GetRecovery().GetAttempts(), test.calls)
			}
		})
	}
}

func TestExhaustedRetriesSayHowManyOverHowLong(t *testing.T) {
	s := newSidecar(t, newRoute(t, "get_order", tool.ReadOnly, fails(always, cutOff)))
	res := s.call(request("toolu_1", "get_order"))
	if !res.GetRecovery().GetRetriesExhausted() || !strings.Contains(res.GetError().GetHint(), "3 attempts") {
		t.Errorf("exhausted %v, hint %q", res.GetRecovery().GetRetriesExhausted(), res.GetError().GetHint())
	}
}

func TestEveryAttemptCarriesTheSameKey(t *testing.T) {
	b := fails(2, cutOff)
	s := newSidecar(t, newRoute(t, "refund", tool.Keyed, b))
	s.call(request("toolu_1", "refund"))
	s.call(request("toolu_2", "refund"))
	if b.keys[0] != b.keys[1] || b.keys[1] != b.keys[2] {
		t.Errorf("keys of one call differ: %v", b.keys[:3])
	}
	if b.keys[3] == b.keys[0] {
		t.Error("two calls share a key")
	}
}

func TestADuplicateGetsTheOriginalByteForByte(t *testing.T) {
	b := answers(strings.Repeat("a long line\n", 4000))
	s := newSidecar(t, newRoute(t, "get_log", tool.NonIdempotent, b))
	first := s.call(request("toolu_1", "get_log"))
	again := s.call(request("toolu_1", "get_log"))
	if !again.GetReplayed() {
		t.Error("not marked as a replay")
	}
	again.Replayed = false
	if !proto.Equal(first, again) {
		t.Errorf("the replay differs:\n%v\n%v", first, again)
	}
	if b.calls.Load() != 1 {
		t.Errorf("%d executions", b.calls.Load())
	}
}

func TestConcurrentDuplicatesRunOnce(t *testing.T) {
	b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		return backend.Reply{Text: []byte("charged")}, nil
	}}
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			res := s.Execute(context.Background(), "", request("toolu_1", "refund"))
			if res.GetContent() != "charged" {
				t.Errorf("got %s", res.GetContent())
			}
		})
	}
	wg.Wait()
	if b.calls.Load() != 1 {
		t.Errorf("%d executions", b.calls.Load())
	}
}

func TestADuplicateOfARunningCallIsToldSoAtItsDeadline(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{})
	b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		close(started)
		<-release
		return backend.Reply{Text: []byte("ok")}, nil
	}}
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	done := make(chan *sidecallv1.ExecuteToolResponse)
	go func() { done <- s.Execute(context.Background(), "", request("toolu_1", "refund")) }()
	<-started
	req := request("toolu_1", "refund")
	req.Timeout = durationpb.New(20 * time.Millisecond)
	if res := s.call(req); code(res) != tool.CodeInProgress {
		t.Errorf("got %s", res.GetContent())
	}
	close(release)
	if res := <-done; res.GetIsError() {
		t.Errorf("the first call: %s", res.GetContent())
	}
}

func TestAnIDIsNotUsedTwice(t *testing.T) {
	b := answers("ok")
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b), newRoute(t, "get_order", tool.ReadOnly, b))
	s.call(request("toolu_1", "refund"))
	other := request("toolu_1", "refund")
	other.ArgumentsJson = `{"order_id":"A-2"}`
	if res := s.call(other); code(res) != tool.CodeIDReused {
		t.Errorf("other arguments: %s", res.GetContent())
	}
	if res := s.call(request("toolu_1", "get_order")); code(res) != tool.CodeIDReused || !strings.Contains(res.GetError().GetConstraint(), "refund") {
		t.Errorf("another tool: %s", res.GetContent())
	}
	same := request("toolu_1", "refund")
	same.ArgumentsJson = "{ \"order_id\" :\n\"A-1\" }"
	if res := s.call(same); !res.GetReplayed() {
		t.Errorf("the same arguments in other white space: %s", res.GetContent())
	}
}

func TestTheSameIDInAnotherTurnIsAnotherCall(t *testing.T) {
	b := answers("ok")
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	s.call(request("call_0", "refund"))
	next := request("call_0", "refund")
	next.TurnId = "t2"
	if res := s.call(next); res.GetReplayed() || b.calls.Load() != 2 {
		t.Errorf("replayed %v, %d executions", res.GetReplayed(), b.calls.Load())
	}
}

// A model that repeats a call under another id makes another call.
func TestAnotherIDIsAnotherCall(t *testing.T) {
	b := answers("ok")
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	s.call(request("toolu_1", "refund"))
	if res := s.call(request("toolu_2", "refund")); res.GetReplayed() || b.calls.Load() != 2 {
		t.Errorf("replayed %v, %d executions", res.GetReplayed(), b.calls.Load())
	}
}

func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	b := fails(1, cutOff)
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b, func(r *Route) { r.Tool.Policy.VerifyWith = "get_order" }))
	first := s.call(request("toolu_1", "refund"))
	again := s.call(request("toolu_1", "refund"))
	if code(first) != tool.CodeOutcomeUnknown || code(again) != tool.CodeOutcomeUnknown || b.calls.Load() != 1 {
		t.Fatalf("%s, %s, %d executions", code(first), code(again), b.calls.Load())
	}
	if !strings.Contains(first.GetError().GetHint(), "get_order") {
		t.Errorf("the hint does not name the tool that can tell: %s", first.GetError().GetHint())
	}
	if first.GetContent() != again.GetContent() {
		t.Errorf("told differently the second time:\n%s\n%s", first.GetContent(), again.GetContent())
	}
}

func TestInvalidArgumentsTouchNothing(t *testing.T) {
	b := answers("ok")
	s := newSidecarOn(t, brokenStore{}, newRoute(t, "refund", tool.NonIdempotent, b))
	for _, arguments := range []string{`{"order_id":7}`, `{}`, `{"order_id":"A-1","centz":3}`, `{"order_id"`, `[]`, `{"order_id":"A-1","order_id":"A-2"}`} {
		req := request("toolu_1", "refund")
		req.ArgumentsJson = arguments
		res := s.call(req)
		if code(res) != tool.CodeInvalidArgs || len(res.GetViolations()) == 0 || !proto.Equal(res.GetViolations()[0], res.GetError()) {
			t.Errorf("%s: %s", arguments, res.GetContent())
		}
	}
	if b.calls.Load() != 0 {
		t.Error("the tool was called")
	}
}

func TestAnUnknownToolNamesTheNearest(t *testing.T) {
	s := newSidecar(t, newRoute(t, "get_order", tool.ReadOnly, answers("ok")))
	res := s.call(request("toolu_1", "get_ordr"))
	if code(res) != tool.CodeUnknownTool || !strings.Contains(res.GetError().GetHint(), `Did you mean "get_order"?`) {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestAProfileLimitsTheTools(t *testing.T) {
	b := answers("ok")
	s := newSidecar(t, newRoute(t, "get_order", tool.ReadOnly, b), newRoute(t, "refund", tool.NonIdempotent, b))
	req := request("toolu_1", "refund")
	req.Profile = "narrow"
	if res := s.call(req); code(res) != tool.CodePermissionDenied || b.calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	req.Profile = "no_such"
	if res := s.call(req); code(res) != tool.CodePermissionDenied || !strings.Contains(res.GetContent(), "narrow") {
		t.Errorf("got %s", res.GetContent())
	}
	list, err := s.service.ListTools(t.Context(), &sidecallv1.ListToolsRequest{Profile: "narrow"})
	if err != nil || len(list.GetTools()) != 1 || list.GetTools()[0].GetName() != "get_order" {
		t.Errorf("listed %v, %v", list.GetTools(), err)
	}
}

func TestValidateOnlyRunsNothing(t *testing.T) {
	b := answers("ok")
	s := newSidecarOn(t, brokenStore{}, newRoute(t, "refund", tool.NonIdempotent, b))
	req := request("toolu_1", "refund")
	req.ValidateOnly = true
	if res := s.call(req); res.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || b.calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	req.ArgumentsJson = `{}`
	if res := s.call(req); code(res) != tool.CodeInvalidArgs {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestTheStoreIsDown(t *testing.T) {
	b := answers("ok")
	s := newSidecarOn(t, brokenStore{}, newRoute(t, "refund", tool.NonIdempotent, b), newRoute(t, "get_order", tool.ReadOnly, b))
	if res := s.call(request("toolu_1", "refund")); code(res) != tool.CodeStoreUnavailable || b.calls.Load() != 0 {
		t.Errorf("a tool with an effect: %s", res.GetContent())
	}
	if res := s.call(request("toolu_1", "get_order")); res.GetContent() != "ok" || res.GetRecorded() {
		t.Errorf("a read-only tool: %s, recorded %v", res.GetContent(), res.GetRecorded())
	}
	s.Options.RefuseUnrecorded = true
	if res := s.call(request("toolu_1", "get_order")); code(res) != tool.CodeStoreUnavailable {
		t.Errorf("a read-only tool, refused by config: %s", res.GetContent())
	}
}

func TestSettlementOutlivesTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		cancel() // the caller leaves while the tool runs, and the tool finishes
		return backend.Reply{Text: []byte("charged")}, nil
	}}
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.Execute(ctx, "", request("toolu_1", "refund")); !res.GetRecorded() {
		t.Errorf("not recorded: %s", res.GetContent())
	}
	if res := s.call(request("toolu_1", "refund")); !res.GetReplayed() || res.GetContent() != "charged" {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestACallCancelledBeforeItStartedDidNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := answers("ok")
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.Execute(ctx, "", request("toolu_1", "refund")); code(res) != tool.CodeCancelled || b.calls.Load() != 0 {
		t.Errorf("got %s", res.GetContent())
	}
	if res := s.call(request("toolu_1", "refund")); res.GetContent() != "ok" {
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
		b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) { panic("a bug") }}
		s := newSidecar(t, newRoute(t, "do_it", test.effect, b, withBreaker(100)))
		res := s.call(request("toolu_1", "do_it"))
		if code(res) != test.code || s.state("toolu_1") != test.state || b.calls.Load() != 1 {
			t.Errorf("%v: %s, state %v, %d calls", test.effect, res.GetContent(), s.state("toolu_1"), b.calls.Load())
		}
		if strings.Contains(res.GetContent(), "goroutine") || strings.Contains(res.GetContent(), "a bug") {
			t.Errorf("the model sees the stack: %s", res.GetContent())
		}
	}
}

func TestTheBulkheadRefuses(t *testing.T) {
	b := answers("ok")
	full := limit.NewBulkhead(1)
	leave, _ := full.Acquire()
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b, func(r *Route) { r.Slots = full }))
	res := s.call(request("toolu_1", "refund"))
	if code(res) != tool.CodeOverloaded || b.calls.Load() != 0 || s.state("toolu_1") != dedupe.Absent {
		t.Errorf("got %s", res.GetContent())
	}
	leave()
	if res := s.call(request("toolu_1", "refund")); res.GetContent() != "ok" {
		t.Errorf("the same id, later: %s", res.GetContent())
	}
}

func TestAnOpenBreakerIsTerminal(t *testing.T) {
	b := fails(always, cutOff)
	s := newSidecar(t, newRoute(t, "get_order", tool.ReadOnly, b, withBreaker(3)))
	s.call(request("toolu_1", "get_order")) // three attempts open it
	before := b.calls.Load()
	res := s.call(request("toolu_2", "get_order"))
	if code(res) != tool.CodeCircuitOpen || b.calls.Load() != before || res.GetRecovery().GetRetryAfter() == nil {
		t.Errorf("got %s after %d more attempts", res.GetContent(), b.calls.Load()-before)
	}
	if s.state("toolu_2") != dedupe.NotRun {
		t.Errorf("state %v", s.state("toolu_2"))
	}
}

func TestWhatNeverTripsABreaker(t *testing.T) {
	for name, failure := range map[string]tool.Failure{"4xx": notFound, "cancel": cancelled} {
		b := fails(always, failure)
		route := newRoute(t, "get_order", tool.ReadOnly, b, withBreaker(2))
		s := newSidecar(t, route)
		for i := range 10 {
			s.call(request("toolu_"+string(rune('a'+i)), "get_order"))
			req := request("toolu_bad", "get_order")
			req.ArgumentsJson = `{"order_id":1}`
			s.call(req)
		}
		if b.calls.Load() != 10 {
			t.Errorf("%s: the breaker opened after %d calls", name, b.calls.Load())
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

func (brokenStore) Renew(context.Context, dedupe.Key, string, int64, time.Duration) (bool, error) {
	return false, errDown
}

func (brokenStore) Lookup(context.Context, dedupe.Key) (dedupe.Record, error) {
	return dedupe.Record{}, errDown
}

func (brokenStore) Output(context.Context, string, string) (dedupe.Output, error) {
	return dedupe.Output{}, errDown
}
func (brokenStore) ListUnknown(context.Context, string) (dedupe.Page, error) {
	return dedupe.Page{}, errDown
}
func (brokenStore) Ping(context.Context) error { return errDown }
func (brokenStore) Close() error               { return nil }

// forgetful is a store that admits and then goes down.
type forgetful struct{ dedupe.Store }

func (forgetful) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return 0, dedupe.ErrClosed
}

func TestAResultThatCannotBeRecordedSaysSo(t *testing.T) {
	s := newSidecarOn(t, forgetful{memory.New(memory.Options{})}, newRoute(t, "refund", tool.NonIdempotent, answers("charged")))
	res := s.call(request("toolu_1", "refund"))
	if res.GetContent() != "charged" || res.GetRecorded() {
		t.Errorf("got %s, recorded %v", res.GetContent(), res.GetRecorded())
	}
}

func TestAPartialResultTellsItemByItem(t *testing.T) {
	b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		return backend.Reply{Text: []byte("{\"items\":[{\"id\":\"A-1\",\"ok\":true},{\"id\":\"A-2\",\"ok\":false,\"why\":\"sold \\u001b[31mout\\u202e\"}]}"), JSON: true}, nil
	}}
	program, err := interpret.Compile(interpret.Config{Partial: &interpret.PartialRule{
		Items: "body.items", OK: "item.ok", Content: "item.id", Error: "item.why",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSidecar(t, newRoute(t, "ship", tool.NonIdempotent, b, func(r *Route) { r.Program = program }))
	res := s.call(request("toolu_1", "ship"))
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
