package call_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// watched is a sidecar whose tools look and pay stand on a backend, in a profile with
// a loop guard as it is by default.
func watched(t *testing.T, b *calltest.Backend, routes ...*catalog.Route) *calltest.Sidecar {
	t.Helper()
	routes = append(routes, calltest.NewRoute(t, "look", tool.ReadOnly, b), calltest.NewRoute(t, "pay", tool.NonIdempotent, b))
	return watchedOn(t, embedded.InMemory(embedded.Options{}), routes...)
}

func watchedOn(t *testing.T, store dedupe.Store, routes ...*catalog.Route) *calltest.Sidecar {
	t.Helper()
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		t.Fatal(err)
	}
	s := calltest.NewOn(t, store, routes...)
	s.Profile(catalog.Profile{Name: "tight", Tools: []string{"*"}, Guard: g, MaxCalls: 1000})
	return s
}

// nth is the n-th call of a prompt, after all before it have been answered.
func nth(n int, toolName, args string) *sidecallv1.ExecuteToolRequest {
	req := asked(fmt.Sprint(toolName, n))
	req.ToolName, req.ArgumentsJson = toolName, args
	return req
}

// orders are arguments that differ from call to call.
func orders(n int) string { return fmt.Sprintf(`{"order_id":"A-%d"}`, n) }

// wantLoop says what the guard finds of a call; rule is empty for nothing.
func wantLoop(t *testing.T, when string, res *sidecallv1.ExecuteToolResponse, level sidecallv1.LoopLevel, rule string, count int32) {
	t.Helper()
	found := res.GetLoop()
	if found.GetLevel() != level || found.GetRule() != rule || found.GetCount() != count {
		t.Errorf("%s: the guard finds %v, want %v by %q, %d times", when, found, level, rule, count)
	}
	if refused := level >= sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE; refused != (calltest.Code(res) == tool.CodeLoopDetected) {
		t.Errorf("%s: %v", when, res)
	}
	if res.GetStop() != (level == sidecallv1.LoopLevel_LOOP_LEVEL_STOP) {
		t.Errorf("%s: stop is %v", when, res.GetStop())
	}
	if res.GetRecovery().GetRequireEscalation() != (level >= sidecallv1.LoopLevel_LOOP_LEVEL_ESCALATE) {
		t.Errorf("%s: escalation is %v", when, res.GetRecovery())
	}
}

// The same call again and again is told so, refused, and ended; nothing is sent any
// more, and what was refused is charged to nobody.
func TestARunawayLoopIsStopped(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("the same")
	s := watched(t, b)
	levels := []sidecallv1.LoopLevel{0, 0, 0, 1, 2, 3, 3, 4, 4}
	for n := 1; n < len(levels); n++ {
		res := s.Call(nth(n, "look", orders(1)))
		if levels[n] == 0 {
			wantLoop(t, fmt.Sprint("call ", n), res, 0, "", 0)
			continue
		}
		wantLoop(t, fmt.Sprint("call ", n), res, levels[n], "same_call", int32(n))
		if levels[n] == sidecallv1.LoopLevel_LOOP_LEVEL_NUDGE && (!strings.Contains(res.GetContent(), "the 3rd time") || len(res.GetNotices()) != 1) {
			t.Errorf("the model is not told: %v", res)
		}
		if used := res.GetBudget().GetToolCallsUsed(); used != min(int64(n), 3) {
			t.Errorf("call %d: %d calls are charged", n, used)
		}
	}
	if n := b.Calls.Load(); n != 3 {
		t.Errorf("the backend was asked %d times, want 3", n)
	}
	if res := s.Call(asked("other", func(r *sidecallv1.ExecuteToolRequest) { r.ToolName, r.PromptId = "look", "p2" })); res.GetLoop() != nil {
		t.Errorf("the next prompt: %v", res)
	}
	if res := s.Call(nth(2, "look", orders(1))); !res.GetReplayed() || res.GetLoop() != nil {
		t.Errorf("a replay: %v", res)
	}
	again := s.Call(nth(4, "look", orders(1)))
	wantLoop(t, "the refused id again", again, sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE, "same_call", again.GetLoop().GetCount())
}

// The same payment under ever new ids is not made, and does not go on for ever: it is told
// what was done, nudged, refused, and stopped.
func TestAPaymentOrderedAgainAndAgainIsStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first tool.Reply
		fails *tool.Failure
		code  tool.Code
	}{
		"done":    {first: tool.Reply{Text: []byte("paid")}, code: tool.CodeDuplicateEffect},
		"unknown": {fails: &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}, code: tool.CodeOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) { return c.first, c.fails }}
			s := watched(t, b, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, byOrder()))
			s.Call(nth(0, "refund", aPayment))
			levels := []sidecallv1.LoopLevel{0, 0, 0, 1, 2, 3, 3, 4, 4}
			if c.fails != nil { // the first is answered as the others are
				levels = levels[1:]
			}
			for n := 1; n < len(levels); n++ {
				res := s.Call(nth(n, "refund", aPayment))
				if levels[n] < sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE && calltest.Code(res) != c.code {
					t.Errorf("call %d: %v, want %s", n, res, c.code)
				}
				if res.GetLoop().GetLevel() != levels[n] || res.GetStop() != (levels[n] == sidecallv1.LoopLevel_LOOP_LEVEL_STOP) {
					t.Errorf("call %d: the guard finds %v, want %v", n, res.GetLoop(), levels[n])
				}
				if res.GetEarlier().GetToolUseId() != nth(0, "refund", "").GetToolUseId() {
					t.Errorf("call %d: the earlier one is %v", n, res.GetEarlier())
				}
				if told := res.GetRecovery().GetContext(); calltest.Code(res) == c.code && (n > 1 || c.fails != nil) != strings.Contains(told, "Earlier attempts") {
					t.Errorf("call %d is told %q", n, told)
				}
				if used := res.GetBudget().GetToolCallsUsed(); used != 1 {
					t.Errorf("call %d: %d calls are charged", n, used)
				}
			}
			if n := b.Calls.Load(); n != 1 {
				t.Errorf("the backend was asked %d times", n)
			}
		})
	}
}

// A profile that is gone refuses every call: whoever goes on all the same is watched as
// one who names no profile, and stopped.
func TestALoopInAProfileThatIsGoneIsStopped(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("never")
	s := watched(t, b)
	tight, _ := s.Catalog.Snapshot().Profiles.Find("tight")
	call := func(n int) *sidecallv1.ExecuteToolResponse {
		req := nth(n, "look", orders(1))
		req.Profile = "gone"
		return s.Call(req)
	}
	for n := range 6 {
		if res := call(n); calltest.Code(res) != tool.CodePermissionDenied || res.GetLoop() != nil {
			t.Errorf("where nobody watches by default: %v", res)
		}
	}
	tight.Name = "all" // which is the default
	s.Profile(tight)
	levels := []sidecallv1.LoopLevel{0, 0, 0, 1, 2, 3, 3, 4}
	for n := 1; n < len(levels); n++ {
		res := call(10 + n)
		if res.GetLoop().GetLevel() != levels[n] || levels[n] < 2 != (calltest.Code(res) == tool.CodePermissionDenied) || res.GetStop() != (levels[n] == 4) {
			t.Errorf("call %d: %v", n, res)
		}
	}
	if n := b.Calls.Load(); n != 0 {
		t.Errorf("the backend was asked %d times", n)
	}
}

// The arguments are compared as they are meant, and the outcome is all of it, before
// it is cut.
func TestALoopIsFoundWhateverItIsWrittenLike(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of a long result\n", 1000)
	var n atomic.Int32
	for name, answer := range map[string]func() string{
		"the same": func() string { return long },
		"its end":  func() string { return long + fmt.Sprint(n.Add(1)) },
	} {
		s := watched(t, &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Text: []byte(answer())}, nil
		}})
		var last *sidecallv1.ExecuteToolResponse
		for i, args := range []string{`{"order_id":"A-1","cents":100}`, `{"cents":1e2,"order_id":"A-1"}`, `{ "order_id": "A\u002d1", "cents": 100.0 }`, `{"cents":100,"order_id":"A-1"}`} {
			last = s.Call(nth(i, "look", args))
			if i < 3 && last.GetTruncation().GetOutputRef() == "" {
				t.Fatalf("%s: it is not cut: %v", name, last)
			}
		}
		if got, want := calltest.Code(last) == tool.CodeLoopDetected, name == "the same"; got != want {
			t.Errorf("%s differs: refused is %v", name, got)
		}
	}
}

// Errors nudge in their hint; what does the same each time is no loop, and neither is
// a tool that is polled.
func TestWhatIsNoLoop(t *testing.T) {
	t.Parallel()
	polled := calltest.NewRoute(t, "poll", tool.ReadOnly, calltest.Answers("running"), func(r *catalog.Route) { r.Tool.Policy.Polling = true })
	s := watched(t, calltest.Answers("ok"), polled)
	for n := range 30 {
		if res := s.Call(nth(n, "pay", orders(n))); res.GetIsError() || res.GetLoop() != nil {
			t.Fatalf("payment %d: %v", n, res)
		}
		if res := s.Call(nth(n, "poll", orders(1))); res.GetIsError() || res.GetLoop() != nil {
			t.Fatalf("look %d: %v", n, res)
		}
	}
}

func TestTheSameErrorWithOtherArguments(t *testing.T) {
	t.Parallel()
	b := calltest.Fails(calltest.Always, calltest.NotFound)
	s := watched(t, b)
	for n := 1; n <= 6; n++ {
		res := s.Call(nth(n, "look", orders(n)))
		switch {
		case n < 4:
			wantLoop(t, fmt.Sprint("call ", n), res, 0, "", 0)
		case n < 6:
			wantLoop(t, fmt.Sprint("call ", n), res, sidecallv1.LoopLevel_LOOP_LEVEL_NUDGE, "same_error", int32(n))
			if !strings.Contains(res.GetError().GetHint(), "Other arguments do not help") {
				t.Errorf("the model is not told: %v", res)
			}
		default:
			wantLoop(t, fmt.Sprint("call ", n), res, sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE, "same_error", int32(n))
		}
	}
	if n := b.Calls.Load(); n != 5 {
		t.Errorf("the backend was asked %d times, want 5", n)
	}
}

// What never came as far as a claim is counted too, in the one look at its record, and
// what is wrong with it stays in the answer.
func TestMalformedCallsInARow(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("never")
	s := watched(t, b)
	var last *sidecallv1.ExecuteToolResponse
	for n := 1; n <= 5; n++ {
		req := nth(n, "pay", fmt.Sprintf(`{"order_id":"A","cents":"%d","note":"x"}`, n))
		if n == 2 {
			req = nth(n, "payy", orders(n))
		}
		if last = s.Call(req); n < 3 {
			wantLoop(t, fmt.Sprint("call ", n), last, 0, "", 0)
		} else if n < 5 {
			wantLoop(t, fmt.Sprint("call ", n), last, sidecallv1.LoopLevel_LOOP_LEVEL_NUDGE, "malformed", int32(n))
			if len(last.GetViolations()) != 2 || !strings.Contains(last.GetContent(), `"more"`) || !strings.Contains(last.GetError().GetHint(), "Read the schema") ||
				last.GetViolations()[0].GetHint() != last.GetError().GetHint() {
				t.Errorf("the nudge: %v", last)
			}
		}
	}
	wantLoop(t, "the fifth", last, sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE, "malformed", 5)
	if len(last.GetViolations()) != 2 {
		t.Errorf("what is wrong with it is lost: %v", last)
	}
	asks := nth(6, "pay", `{}`)
	asks.ValidateOnly = true
	if res := s.Call(asks); calltest.Code(res) != tool.CodeInvalidArgs || res.GetLoop() != nil {
		t.Errorf("a call that is only validated: %v", res)
	}
	if res := s.Call(nth(7, "pay", orders(7))); res.GetIsError() {
		t.Errorf("a call that is right, after all: %v", res)
	}
}

// Calls of one message of the model are no loop, however many are wrong, and however they
// are sent: it had seen the answer to none when it made the others.
func TestCallsOfOneMessageAreNoLoop(t *testing.T) {
	t.Parallel()
	s := watched(t, calltest.Answers("never"))
	for n := range 8 {
		req := nth(n, "payy", orders(n))
		req.MessageId = "m1"
		wantLoop(t, fmt.Sprint("call ", n), s.Call(req), 0, "", 0)
	}
	req := nth(8, "payy", orders(8))
	req.MessageId = "m2"
	if res := s.Call(req); res.GetLoop() == nil {
		t.Error("nor are those of the next message, which has seen them")
	}
}

// A message whose calls come in several batches is one all the same.
func TestTheBatchesOfOneMessageAreNoLoop(t *testing.T) {
	t.Parallel()
	s := watched(t, calltest.Answers("never"))
	for n := 0; n < 8; n += 2 {
		var batch []call.Request
		for _, i := range []int{n, n + 1} {
			req := nth(i, "payy", orders(i))
			req.MessageId = "m1"
			batch = append(batch, call.NewRequest("", req))
		}
		for _, res := range s.ExecuteBatch(t.Context(), batch) {
			wantLoop(t, fmt.Sprint("batch ", n), res, 0, "", 0)
		}
	}
}

// The same payment twice in one breath is made once; sent again, the batch gets the
// same answers.
func TestDuplicatesInABatch(t *testing.T) {
	t.Parallel()
	b := calltest.Answers("paid")
	s := watched(t, b)
	batch := func() (requests []call.Request) {
		for i, args := range []string{orders(1), `{ "order_id" : "A-1" }`, orders(2)} {
			requests = append(requests, call.NewRequest("", nth(i, "pay", args)))
		}
		other := nth(3, "pay", orders(2))
		other.PromptId = "p2"
		return append(requests, call.NewRequest("", other))
	}
	for _, when := range []string{"at first", "sent again"} {
		res := s.ExecuteBatch(t.Context(), batch())
		wantLoop(t, when, res[1], sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE, "duplicate", 2)
		if !strings.Contains(res[1].GetError().GetReceived(), "call 1 of the batch") {
			t.Errorf("%s: %v", when, res[1])
		}
		for _, i := range []int{0, 2, 3} {
			if res[i].GetIsError() || res[i].GetLoop() != nil {
				t.Errorf("%s: call %d: %v", when, i, res[i])
			}
		}
	}
	if n := b.Calls.Load(); n != 3 {
		t.Errorf("the backend was asked %d times, want 3", n)
	}
}

// A keyed call that may have run is repeated under its id alone: no loop keeps
// somebody from finding out.
func TestACallThatMayHaveRunIsNotRefusedAsALoop(t *testing.T) {
	t.Parallel()
	b := calltest.Fails(calltest.Always, calltest.TimedOut)
	s := watched(t, b, calltest.NewRoute(t, "charge", tool.Keyed, b))
	for n := range 3 {
		if res := s.Call(nth(n, "charge", orders(1))); calltest.Code(res) != tool.CodeTimeout {
			t.Fatal(res)
		}
	}
	refused := s.Call(nth(4, "charge", orders(1)))
	wantLoop(t, "a fourth charge", refused, sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE, "same_call", 4)
	asked := b.Calls.Load()
	if res := s.Call(nth(2, "charge", orders(1))); calltest.Code(res) != tool.CodeTimeout || b.Calls.Load() == asked {
		t.Errorf("an id that may have been charged, sent again: %v", res)
	}
}

// counting counts what a store is asked.
type counting struct {
	dedupe.Store

	trips atomic.Int32
}

func (c *counting) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	c.trips.Add(1)
	return c.Store.Admit(ctx, req)
}

func (c *counting) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	c.trips.Add(1)
	return c.Store.Settle(ctx, s)
}

func (c *counting) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	c.trips.Add(1)
	return c.Store.Note(ctx, n)
}

// With budget and guard on, a call asks the store twice, and once when it is a replay
// or refused before anything was sent.
func TestAGuardedCallAsksTheStoreTwice(t *testing.T) {
	t.Parallel()
	store := &counting{Store: embedded.InMemory(embedded.Options{})}
	b := calltest.Answers("the same")
	s := watchedOn(t, store, calltest.NewRoute(t, "look", tool.ReadOnly, b))
	for _, c := range []struct {
		when string
		req  *sidecallv1.ExecuteToolRequest
		want int32
	}{
		{"a call", nth(1, "look", orders(1)), 2},
		{"a replay", nth(1, "look", orders(1)), 1},
		{"invalid arguments", nth(2, "look", `{}`), 1},
		{"an unknown tool", nth(3, "lok", orders(1)), 1},
		{"a second call", nth(4, "look", orders(1)), 2},
		{"a third", nth(5, "look", orders(1)), 2},
		{"a refused one", nth(6, "look", orders(1)), 2},
	} {
		store.trips.Store(0)
		s.Call(c.req)
		if got := store.trips.Load(); got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.when, got, c.want)
		}
	}
	if b.Calls.Load() != 3 {
		t.Errorf("the backend was asked %d times, want 3", b.Calls.Load())
	}
}

// A prompt's name may be longer than a log's.
func TestLongPromptsHaveLogsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := watched(t, calltest.Answers("the same"))
	long := strings.Repeat("p", 256)
	for _, prompt := range []string{long, long[:255], long[:125], long[:124]} {
		for n := range 3 {
			req := nth(n, "look", orders(1))
			req.PromptId, req.TurnId = prompt, prompt[:n+100]+fmt.Sprint(len(prompt))
			if res := s.Call(req); res.GetIsError() || res.GetLoop() != nil && n < 2 {
				t.Errorf("%d characters, call %d: %v", len(prompt), n, res)
			}
		}
	}
}

// What fails because the upstream is away is no loop, however often it is tried, nor is
// it one afterwards.
func TestAnOutageIsNoLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := calltest.Fails(12*3, calltest.CutOff) // three attempts a call
		s := watched(t, b)
		for n := range 12 {
			args := orders(n)
			if n%2 == 0 {
				args = orders(0)
			}
			if res := s.Call(nth(n, "look", args)); calltest.Code(res) != tool.CodeDependencyUnavailable || res.GetLoop() != nil {
				t.Errorf("call %d: %v", n, res)
			}
		}
		if res := s.Call(nth(12, "look", orders(0))); res.GetIsError() || res.GetLoop() != nil {
			t.Errorf("when it is back: %v", res)
		}
	})
}
