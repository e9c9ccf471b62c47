package call_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// shop is an upstream that refunds, loses its answers, and knows what it did.
type shop struct {
	// happens says whether a refund that is asked for is carried out.
	happens bool
	// answers says whether its answer arrives.
	answers bool
	// look replaces the answer of get_order.
	look func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure)

	refunds atomic.Int32 // carried out
	looks   atomic.Int32
}

func (s *shop) refund(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
	if s.happens {
		s.refunds.Add(1)
	}
	if !s.answers {
		f := calltest.CutOff
		return tool.Reply{}, &f
	}
	return tool.Reply{Text: []byte(`{"refunded":true}`), JSON: true}, nil
}

func (s *shop) getOrder(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
	s.looks.Add(1)
	if s.look != nil {
		return s.look(ctx, in)
	}
	list := ""
	if s.refunds.Load() > 0 {
		list = fmt.Sprintf(`{"order":%q}`, in.Parsed["order_id"])
	}
	return tool.Reply{Status: 200, Text: fmt.Appendf(nil, `{"refunds":[%s]}`, list), JSON: true}, nil
}

const notRunAfter = 30 * time.Second

// verifiable is a refund that get_order can tell of; change adjusts the routes.
func (s *shop) routes(t *testing.T, change ...func(refund, look *catalog.Route)) (refund, look *catalog.Route) {
	t.Helper()
	program, err := interpret.CompileVerification(interpret.VerificationConfig{
		Args:     map[string]string{"order_id": "args.order_id"},
		DoneWhen: "size(result.refunds) > 0", NotRunWhen: "size(result.refunds) == 0", Result: "result.refunds[0]",
	})
	if err != nil {
		t.Fatal(err)
	}
	look = calltest.NewRoute(t, "get_order", tool.ReadOnly, &calltest.Backend{Do: s.getOrder})
	refund = calltest.NewRoute(t, "refund", tool.NonIdempotent, &calltest.Backend{Do: s.refund}, func(r *catalog.Route) {
		r.Tool.Policy.VerifyWith = "get_order"
		r.Verification = &catalog.Verification{Tool: "get_order", Program: program, NotRunAfter: notRunAfter, Timeout: 2 * time.Second}
	})
	for _, f := range change {
		f(refund, look)
	}
	return refund, look
}

func (s *shop) sidecar(t *testing.T, change ...func(refund, look *catalog.Route)) *calltest.Sidecar {
	t.Helper()
	refund, look := s.routes(t, change...)
	return calltest.New(t, refund, look)
}

// bubble runs a test in a synctest bubble, where waiting takes no time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestVerificationFindsAtOnceThatItHappened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: true}
		s := up.sidecar(t)
		res := s.Call(calltest.Request("toolu_1", "refund"))
		if res.GetIsError() || res.GetContent() != `{"order":"A-1"}` || res.GetReplayed() || !res.GetRecorded() {
			t.Fatalf("got %v", res)
		}
		if r := res.GetResolution(); r.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_DONE || r.GetBy() != "verification" ||
			r.GetVerifiedWith() != "get_order" || r.GetReason() == "" || r.GetAt() == nil {
			t.Errorf("resolution %v", r)
		}
		if len(res.GetNotices()) != 1 || !strings.Contains(res.GetNotices()[0], "was lost") {
			t.Errorf("notices %q", res.GetNotices())
		}
		again := s.Call(calltest.Request("toolu_1", "refund"))
		if !again.GetReplayed() || again.GetContent() != res.GetContent() || !proto.Equal(again.GetResolution(), res.GetResolution()) {
			t.Errorf("a duplicate got %v", again)
		}
		if up.refunds.Load() != 1 || up.looks.Load() != 1 || s.State("toolu_1") != dedupe.Done {
			t.Errorf("%d refunds, %d looks, state %v", up.refunds.Load(), up.looks.Load(), s.State("toolu_1"))
		}
	})
}

func TestVerificationWithoutAResultSaysASentence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: true}
		program, err := interpret.CompileVerification(interpret.VerificationConfig{
			Args: map[string]string{"order_id": "args.order_id"}, DoneWhen: "size(result.refunds) > 0",
		})
		if err != nil {
			t.Fatal(err)
		}
		s := up.sidecar(t, func(refund, _ *catalog.Route) { refund.Verification.Program = program })
		if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetIsError() || !strings.Contains(res.GetContent(), "refund has happened: get_order shows it") {
			t.Errorf("got %v", res)
		}
	})
}

// The request may still be under way: that its effect is not there proves
// nothing until its time is over. Then it is run, once.
func TestNotThereIsBelievedOnlyAfterAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		res := s.Call(calltest.Request("toolu_1", "refund"))
		if calltest.Code(res) != tool.CodeOutcomeUnknown || !strings.Contains(res.GetError().GetHint(), "asked get_order already") {
			t.Fatalf("got %s", res.GetContent())
		}
		if got := res.GetRecovery().GetRetryAfter().AsDuration(); got != notRunAfter {
			t.Errorf("retry_after = %v, want %v", got, notRunAfter)
		}
		up.happens, up.answers = true, true

		time.Sleep(notRunAfter - time.Second)
		early := s.Call(calltest.Request("toolu_1", "refund"))
		if calltest.Code(early) != tool.CodeOutcomeUnknown || early.GetContent() != res.GetContent() || !early.GetReplayed() {
			t.Fatalf("a second too early: %v", early)
		}
		if got := early.GetRecovery().GetRetryAfter().AsDuration(); got != time.Second || len(early.GetNotices()) != 1 {
			t.Errorf("retry_after = %v, notices %q", got, early.GetNotices())
		}
		if up.refunds.Load() != 0 {
			t.Fatal("it ran while the first request might have been under way")
		}

		time.Sleep(time.Second)
		late := s.Call(calltest.Request("toolu_1", "refund"))
		if late.GetIsError() || late.GetReplayed() || late.GetContent() != `{"refunded":true}` || late.GetResolution() != nil {
			t.Fatalf("got %v", late)
		}
		if again := s.Call(calltest.Request("toolu_1", "refund")); !again.GetReplayed() || again.GetContent() != late.GetContent() {
			t.Errorf("a duplicate got %v", again)
		}
		if up.refunds.Load() != 1 {
			t.Errorf("%d refunds, want 1", up.refunds.Load())
		}
	})
}

// An effect that arrives late is found by the duplicate, and not made twice.
func TestALateEffectIsFoundByTheDuplicate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
			t.Fatalf("got %v", res)
		}
		up.refunds.Add(1) // the request was in a queue of the upstream
		time.Sleep(2 * time.Second)
		res := s.Call(calltest.Request("toolu_1", "refund"))
		if res.GetIsError() || !res.GetReplayed() || res.GetContent() != `{"order":"A-1"}` || res.GetResolution().GetVerifiedWith() != "get_order" {
			t.Errorf("got %v", res)
		}
		if up.refunds.Load() != 1 || s.State("toolu_1") != dedupe.Done {
			t.Errorf("%d refunds, state %v", up.refunds.Load(), s.State("toolu_1"))
		}
	})
}

// A sidecar that said nothing may be cut off from the store and at work still,
// until the deadline of the call: only then not_run_after begins.
func TestTheOwnerThatSaidNothingMayStillBeAtWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: true, answers: true}
		s := up.sidecar(t, func(refund, _ *catalog.Route) { refund.Tool.Policy.Deadline = 2 * time.Minute })
		abandon(s, t, "toolu_1", "refund")
		time.Sleep(30*time.Second + notRunAfter) // lease and not_run_after
		if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
			t.Fatalf("got %v", res)
		}
		time.Sleep(time.Minute + 30*time.Second)
		if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetIsError() || res.GetReplayed() || up.refunds.Load() != 1 {
			t.Errorf("%v, %d refunds", res, up.refunds.Load())
		}
	})
}

// abandon leaves a call behind as a sidecar does that dies while running it.
func abandon(s *calltest.Sidecar, t *testing.T, id, toolName string) {
	t.Helper()
	req := call.NewRequest("", calltest.Request(id, toolName))
	route, _ := s.Catalog.Snapshot().Lookup(toolName)
	args, violation := route.Schema.ParseArgs(req.Arguments)
	if violation != nil {
		t.Fatal(violation)
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		t.Fatal(err)
	}
	dead := dedupe.New(keepOpen{s.Store}, dedupe.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	admission, _, err := dead.Join(req.Key).Admit(ctx, dedupe.Request{
		Tool: toolName, Effect: route.Tool.Effect, Fingerprint: schema.Fingerprint(toolName, canonical),
	})
	if err != nil || admission.Verdict != dedupe.Won {
		t.Fatal(admission.Verdict, err)
	}
	cancel()
	if err := dead.Close(ctx); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
}

// Anything but a clear answer leaves the call unknown, and costs one look.
func TestVerificationThatCannotTell(t *testing.T) {
	full := limit.NewBulkhead(1)
	full.Acquire(&limit.Place{})
	open := breaker.New(breaker.Settings{Name: "shop", Failures: 1, Window: time.Minute, OpenFor: time.Hour})
	done, err := open.Allow()
	if err != nil {
		t.Fatal(err)
	}
	done(breaker.Failure)
	says := func(text string) func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Text: []byte(text), JSON: true}, nil
		}
	}
	failsWith := func(f tool.Failure) func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) { return tool.Reply{}, &f }
	}
	for name, test := range map[string]struct {
		look   func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure)
		change func(refund, look *catalog.Route)
		looks  int32
	}{
		"another answer":     {look: says(`{"orders":[]}`), looks: 1},
		"no JSON":            {look: says(`down for maintenance`), looks: 1},
		"it fails":           {look: failsWith(calltest.CutOff), looks: 1},
		"it is refused":      {look: failsWith(calltest.Refused), looks: 1},
		"a definite failure": {look: failsWith(calltest.NotFound), looks: 1},
		"it panics":          {look: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) { panic("a bug") }, looks: 1},
		"it hangs": {look: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
			<-ctx.Done()
			f := calltest.TimedOut
			return tool.Reply{}, &f
		}, looks: 1},
		"its bulkhead is full":  {change: func(_, look *catalog.Route) { look.Slots = full }},
		"its breaker is open":   {change: func(_, look *catalog.Route) { look.Breaker = open }},
		"its rate is used up":   {change: func(_, look *catalog.Route) { look.Rate = limit.NewRate(1e-9, 1); look.Rate.Take() }},
		"it is not there":       {change: func(refund, _ *catalog.Route) { refund.Verification.Tool = "get_ordr" }},
		"it is not read_only":   {change: func(_, look *catalog.Route) { look.Tool.Effect = tool.Idempotent }},
		"it takes no such args": {change: func(_, look *catalog.Route) { look.Schema = mustSchema(t, `{"type":"object","required":["number"]}`) }},
		"its output is too long": {look: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Text: []byte(`{"refunds":[]}`), JSON: true, Cut: true}, nil
		}, looks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				up := &shop{happens: true, look: test.look}
				change := test.change
				if change == nil {
					change = func(_, _ *catalog.Route) {}
				}
				s := up.sidecar(t, change)
				began := time.Now()
				if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown || res.GetResolution() != nil {
					t.Errorf("got %v", res)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v, and may take 2s", took)
				}
				time.Sleep(time.Hour)
				if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown || s.State("toolu_1") != dedupe.Unknown {
					t.Errorf("an hour later: %v", res)
				}
				if up.refunds.Load() != 1 || up.looks.Load() != 2*test.looks {
					t.Errorf("%d refunds, %d looks, want 1 and %d", up.refunds.Load(), up.looks.Load(), 2*test.looks)
				}
			})
		})
	}
}

// A crowd of duplicates asks once, and is run once.
func TestDuplicatesVerifyTogether(t *testing.T) {
	for _, happened := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			up := &shop{}
			s := up.sidecar(t)
			if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
				t.Fatalf("got %v", res)
			}
			time.Sleep(time.Hour)
			if happened {
				up.refunds.Add(1)
			}
			up.happens, up.answers = true, true
			looked := up.looks.Load()
			up.look = func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
				time.Sleep(time.Second) // for all of them to come
				up.look = nil
				up.looks.Add(-1)
				return up.getOrder(ctx, in)
			}
			const crowd = 500
			answers := make([]*sidecallv1.ExecuteToolResponse, crowd)
			var all sync.WaitGroup
			for i := range crowd {
				all.Go(func() {
					answers[i] = s.Execute(t.Context(), call.NewRequest("", calltest.Request("toolu_1", "refund")))
				})
			}
			all.Wait()
			ran := 0
			for _, answer := range answers {
				if answer.GetIsError() || answer.GetContent() != answers[0].GetContent() {
					t.Fatalf("one got %v, another %v", answers[0], answer)
				}
				if !answer.GetReplayed() {
					ran++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[happened]; ran != want || up.refunds.Load() != 1 {
				t.Errorf("happened %v: %d are said to have run, want %d; %d refunds", happened, ran, want, up.refunds.Load())
			}
			if n := up.looks.Load() - looked; n != 1 {
				t.Errorf("%d looks for %d duplicates", n, crowd)
			}
		})
	}
}

// One duplicate after the other does not become one look after the other.
func TestVerificationPausesBetweenLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		for range 100 {
			if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
				t.Fatalf("got %v", res)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := up.looks.Load(); n < 5 || n > 11 {
			t.Errorf("%d looks in 10s, want about one a second", n)
		}
	})
}

// The caller who asks first may leave first; those who wait ask for themselves.
func TestVerificationOutlivesWhoAskedFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		s.Call(calltest.Request("toolu_1", "refund"))
		time.Sleep(time.Minute)
		up.refunds.Add(1)
		up.look = func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			select {
			case <-ctx.Done():
				f := calltest.TimedOut
				return tool.Reply{}, &f
			case <-time.After(time.Second):
				up.look = nil
				return up.getOrder(ctx, in)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() {
			if res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_1", "refund"))); calltest.Code(res) != tool.CodeOutcomeUnknown {
				t.Errorf("who had no time: %v", res)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if res := s.Execute(t.Context(), call.NewRequest("", calltest.Request("toolu_1", "refund"))); res.GetIsError() || !res.GetReplayed() {
				t.Errorf("who had time: %v", res)
			}
		})
		both.Wait()
	})
}

// No time is left when the deadline of the call was what cut it off.
func TestNoVerificationWithoutTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		refund, look := up.routes(t)
		refund.Backend = &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
			<-ctx.Done()
			f := calltest.TimedOut
			return tool.Reply{}, &f
		}}
		refund.Tool.Policy.AttemptTimeout = time.Minute
		s := calltest.New(t, refund, look)
		if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown || up.looks.Load() != 0 {
			t.Errorf("%v, %d looks", res, up.looks.Load())
		}
	})
}

// What a failing verification says of its backend says nothing of the original's.
func TestVerificationCountsAtItsOwnBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		settings := breaker.Settings{Name: "shop", Failures: 2, Window: time.Hour, OpenFor: time.Hour}
		own, other := breaker.New(settings), breaker.New(settings)
		up := &shop{look: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			f := calltest.CutOff
			return tool.Reply{}, &f
		}}
		s := up.sidecar(t, func(refund, look *catalog.Route) { refund.Breaker, look.Breaker = own, other })
		s.Call(calltest.Request("toolu_1", "refund"))
		for range 3 {
			time.Sleep(2 * time.Second)
			s.Call(calltest.Request("toolu_1", "refund"))
		}
		if own.State() != breaker.Closed || other.State() != breaker.Open {
			t.Errorf("its breaker is %v, that of what was asked %v; want closed and open", own.State(), other.State())
		}
	})
}

// With one place at the backend, the call's own place is free for the question.
func TestVerificationDoesNotStandInItsOwnWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{}
		one := limit.NewBulkhead(1)
		s := up.sidecar(t, func(refund, look *catalog.Route) { refund.Slots, look.Slots = one, one })
		s.Slots = limit.NewBulkhead(1)
		s.Call(calltest.Request("toolu_1", "refund"))
		time.Sleep(time.Hour)
		up.happens, up.answers = true, true
		if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetIsError() || up.looks.Load() != 2 || up.refunds.Load() != 1 {
			t.Errorf("%v, %d looks, %d refunds", res, up.looks.Load(), up.refunds.Load())
		}
		if one.InFlight() != 0 || s.Slots.InFlight() != 0 {
			t.Errorf("%d places at the backend and %d in the sidecar were not given back", one.InFlight(), s.Slots.InFlight())
		}
	})
}

func TestVerificationIsLoggedAndCounted(t *testing.T) {
	var log bytes.Buffer
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, slog.NewJSONHandler(&log, nil))
	if err != nil {
		t.Fatal(err)
	}
	up := &shop{happens: true}
	s := up.sidecar(t)
	s.With(func(p *call.Parts) { p.Recorder = observed.Recorder })
	s.Call(calltest.Request("toolu_1", "refund"))
	page := httptest.NewRecorder()
	observed.Metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if err := observed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"msg":"verification","conversation":"c1","turn":"t1","tool_use_id":"toolu_1","tool":"refund","verified_with":"get_order","verdict":"happened"`,
		`"msg":"resolve","conversation":"c1","turn":"t1","tool_use_id":"toolu_1","tool":"refund","from":"unknown","to":"done","epoch":1,"by":"verification"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "A-1") {
		t.Errorf("the log shows an argument:\n%s", &log)
	}
	for _, want := range []string{`sidecall_resolutions_total{by="verification"`, `gen_ai_tool_name="get_order"`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(page.Body.String(), `sidecall_calls_total{error_type="",gen_ai_operation_name="execute_tool",gen_ai_tool_name="get_order"`) {
		t.Error("a verification counts as a call")
	}
}

func TestUnverifiable(t *testing.T) {
	up := &shop{}
	refund, look := up.routes(t)
	r := catalog.NewGeneration(catalog.Profiles{}, catalog.Limits{})
	r.Set(catalog.ConfigSource, []*catalog.Route{refund})
	if problems := r.Snapshot().Unverifiable(); len(problems) != 0 {
		t.Errorf("a tool that may still be discovered: %q", problems)
	}
	look.Tool.Effect = tool.NonIdempotent
	r.Set("discovered", []*catalog.Route{look})
	if problems := r.Snapshot().Unverifiable(); len(problems) != 1 || !strings.Contains(problems[0], "get_order, which is non_idempotent") {
		t.Errorf("%q", problems)
	}
}

// keepOpen is a store that outlives whoever closes it.
type keepOpen struct{ dedupe.Store }

func (keepOpen) Close() error { return nil }

func mustSchema(t *testing.T, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("test", []byte(text), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verification compiles a verification that only says when a call is done.
func verification(t *testing.T, args map[string]string, doneWhen string) *interpret.Verification {
	t.Helper()
	program, err := interpret.CompileVerification(interpret.VerificationConfig{Args: args, DoneWhen: doneWhen})
	if err != nil {
		t.Fatal(err)
	}
	return program
}
