package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// logged lets a sidecar log to handler.
func logged(s *calltest.Sidecar, t *testing.T, handler slog.Handler) {
	t.Helper()
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observed.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.With(func(p *call.Parts) { p.Recorder = observed.Recorder })
}

// fragile is a handler with a bug: it panics on the line of every call.
type fragile struct{ slog.Handler }

func (f fragile) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		panic("a bug in logging")
	}
	return f.Handler.Handle(ctx, r)
}

// A bug in what only watches takes no result away, and no process.
func TestPanicWhileACallIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("paid")))
	logged(s, t, fragile{slog.NewTextHandler(&log, nil)})
	for _, res := range s.ExecuteBatch(t.Context(), []call.Request{call.NewRequest("", calltest.Request("toolu_1", "refund"))}) {
		if res.GetContent() != "paid" || !res.GetRecorded() {
			t.Errorf("got %v", res)
		}
	}
	if !strings.Contains(log.String(), "a bug in logging") {
		t.Errorf("the log does not tell: %s", log.String())
	}
}

// What is said of an argument may quote it.
func TestWhatIsSaidOfASecretIsNotShown(t *testing.T) {
	wrong := tool.Failure{Code: tool.CodeInvalidArgs, Evidence: tool.NotExecuted, Field: "order_id", Message: `got "hunter2/.."`, CallerFault: true}
	other := wrong
	other.Field = "cents"
	secret := func(r *catalog.Route) { r.Tool.Policy.Sensitive = []string{"order_id"} }
	odd := wrong
	odd.Field = `["card.number"]`
	card := func(r *catalog.Route) { r.Tool.Policy.Sensitive = []string{"card.number"} }
	password := func(r *catalog.Route) {
		r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"order_id":{"type":"string","format":"password"}}}`)
	}
	s := calltest.New(t,
		calltest.NewRoute(t, "sensitive", tool.ReadOnly, calltest.Fails(calltest.Always, wrong), secret),
		calltest.NewRoute(t, "password", tool.ReadOnly, calltest.Fails(calltest.Always, wrong), password),
		calltest.NewRoute(t, "public", tool.ReadOnly, calltest.Fails(calltest.Always, wrong)),
		calltest.NewRoute(t, "odd name", tool.ReadOnly, calltest.Fails(calltest.Always, odd), card),
		calltest.NewRoute(t, "other", tool.ReadOnly, calltest.Fails(calltest.Always, other), secret))
	for name, want := range map[string]string{
		"sensitive": "(redacted)", "password": "(redacted)", "odd name": "(redacted)", "public": wrong.Message, "other": wrong.Message,
	} {
		res := s.Call(calltest.Request("toolu_"+name, name))
		if got := res.GetError().GetReceived(); got != want {
			t.Errorf("%s: received %q, want %q", name, got, want)
		}
		if want == "(redacted)" && strings.Contains(res.String(), "hunter2") {
			t.Errorf("%s: %v", name, res)
		}
	}
}

// What cannot be sent is shown without the secrets in it.
func TestASecretInWhatCannotBeSentIsNotShown(t *testing.T) {
	wrong := tool.Failure{
		Code: tool.CodeInvalidArgs, Evidence: tool.NotExecuted, ErrorType: "invalid_args", CallerFault: true,
		Field: "order", Constraint: "it is sent in the URL", Message: `{"id":7,"pin":"hunter2"}`,
	}
	s := calltest.New(t, calltest.NewRoute(t, "find", tool.ReadOnly, calltest.Fails(calltest.Always, wrong), func(r *catalog.Route) {
		r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"order":{"type":"object","properties":{"pin":{"type":"string","writeOnly":true}}}}}`)
	}))
	req := calltest.Request("toolu_1", "find")
	req.ArgumentsJson = `{"order":{"pin":"hunter2","id":7}}`
	res := s.Call(req)
	if got := res.GetError().GetReceived(); got != `{"id":7,"pin":"(redacted)"}` || strings.Contains(res.String(), "hunter2") {
		t.Errorf("received %s of %v", got, res)
	}
}

// What an upstream names as the field may be no path at all.
func TestAFieldThatIsNoPathIsTold(t *testing.T) {
	for _, field := range []string{".", "[]", "]"} {
		wrong := tool.Failure{Code: tool.CodeBusinessRule, Evidence: tool.Definite, Field: field, Message: "too late"}
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, wrong)))
		if e := s.Call(calltest.Request("toolu_1", "refund")).GetError(); e.GetCode() != string(tool.CodeBusinessRule) || e.GetField() != field || e.GetReceived() != "too late" {
			t.Errorf("%s: told %v", field, e)
		}
	}
}

// mistaken says that a call is unknown which is running.
type mistaken struct{ dedupe.Store }

func (f mistaken) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	known, err := f.Store.Note(ctx, n)
	known.Record.State = dedupe.Unknown
	return known, err
}

// Renew implements dedupe.Store: the claim is lost.
func (f mistaken) Renew(context.Context, dedupe.Renewal) (dedupe.Record, bool, error) {
	return dedupe.Record{}, false, nil
}

// After an outage longer than its lease a call is unknown to the store, and
// still at work in this process, before and after it learns that.
func TestACallThatThisSidecarRunsIsNotResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			close(started)
			<-release
			return tool.Reply{Text: []byte("paid")}, nil
		}}
		route := calltest.NewRoute(t, "refund", tool.NonIdempotent, b)
		route.Tool.Policy.AttemptTimeout, route.Tool.Policy.Deadline = time.Hour, time.Hour
		s := calltest.NewOn(t, mistaken{embedded.InMemory(embedded.Options{})}, route)
		done := make(chan *sidecallv1.ExecuteToolResponse)
		go func() { done <- s.Execute(t.Context(), call.NewRequest("", calltest.Request("toolu_1", "refund"))) }()
		<-started
		for _, lost := range []bool{false, true} {
			if !s.Dedupe.AtWork(tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}) {
				t.Errorf("lost %v: it is not known to be at work", lost)
			}
			_, err := operator(s).ResolveExecution(t.Context(), resolution(stateNotRun))
			wantStatus(t, err, codes.FailedPrecondition, "running", "wait")
			time.Sleep(time.Minute) // the claim is renewed, or not
		}
		close(release)
		if res := <-done; res.GetContent() != "paid" {
			t.Errorf("got %v", res)
		}
	})
}

// mute does what it is asked, and its answer to a resolution is lost.
type mute struct{ dedupe.Store }

func (m mute) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	verdict, err := m.Store.Settle(ctx, s)
	if s.Resolves {
		return 0, errDown
	}
	return verdict, err
}

// Who let a call run again is written down, also when the store does not say
// whether it took it.
func TestAResolutionWithoutAnAnswerIsWrittenDown(t *testing.T) {
	var log bytes.Buffer
	s := calltest.NewOn(t, mute{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(1, calltest.CutOff)))
	logged(s, t, slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.Call(calltest.Request("toolu_1", "refund"))
	_, err := operator(s).ResolveExecution(t.Context(), resolution(stateNotRun))
	wantStatus(t, err, codes.Unavailable, "may be settled or not")
	for _, want := range []string{"msg=resolve", "by=ann", "to=not_run", "unconfirmed="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log: %s", want, log.String())
		}
	}
}

// An open breaker uses no rate up, and a rate that is used up no probe.
func TestBreakerAndRateDoNotTakeFromEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := calltest.Answers("ok")
		open := breaker.New(breaker.Settings{Name: "shop", Failures: 1, Window: time.Minute, OpenFor: time.Second})
		route := calltest.NewRoute(t, "look", tool.ReadOnly, b, func(r *catalog.Route) {
			r.Breaker, r.Rate = open, limit.NewRate(0.01, 1)
			r.Tool.Policy.Retry.MaxAttempts = 1
		})
		s := calltest.New(t, route)
		done, err := open.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(breaker.Failure)
		for _, id := range []string{"toolu_1", "toolu_2", "toolu_3"} {
			if res := s.Call(calltest.Request(id, "look")); calltest.Code(res) != tool.CodeCircuitOpen {
				t.Errorf("%s: %s, want CIRCUIT_OPEN", id, calltest.Code(res))
			}
		}
		time.Sleep(2 * time.Second)
		if res := s.Call(calltest.Request("toolu_4", "look")); res.GetContent() != "ok" {
			t.Errorf("the one token was left: %v", res)
		}
		done, err = open.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(breaker.Failure)
		time.Sleep(2 * time.Second)
		if res := s.Call(calltest.Request("toolu_5", "look")); calltest.Code(res) != tool.CodeRateLimited {
			t.Errorf("no token is left: %v", res)
		}
		if done, err = open.Allow(); err != nil {
			t.Fatalf("the refused call keeps the probe: %v", err)
		}
		done(breaker.Success)
	})
}

func TestAMadeUpNameIsNotCarriedAround(t *testing.T) {
	var log bytes.Buffer
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")))
	logged(s, t, slog.NewTextHandler(&log, nil))
	res := s.Call(calltest.Request("toolu_1", strings.Repeat("refund_", 1<<17)))
	if calltest.Code(res) != tool.CodeUnknownTool || len(res.GetContent()) > 2000 || log.Len() == 0 || log.Len() > 4000 {
		t.Errorf("%d bytes of result, %d of log: %.300s", len(res.GetContent()), log.Len(), res.GetContent())
	}
}

// The line of a call says how it ended, for each way in which one can.
func TestTheLogSaysHowACallEnded(t *testing.T) {
	var log bytes.Buffer
	s := calltest.New(t,
		calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")),
		calltest.NewRoute(t, "works_at_last", tool.ReadOnly, calltest.Fails(1, calltest.CutOff)),
		calltest.NewRoute(t, "finds_nothing", tool.ReadOnly, calltest.Answers("")),
		calltest.NewRoute(t, "fails_for_now", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.CutOff)),
		calltest.NewRoute(t, "fails", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.NotFound)),
		calltest.NewRoute(t, "pays", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	logged(s, t, slog.NewTextHandler(&log, nil))
	for _, c := range []struct{ id, tool, want string }{
		{"toolu_1", "works", "ok"},
		{"toolu_1", "works", "replayed"},
		{"toolu_2", "works_at_last", "retried"},
		{"toolu_3", "finds_nothing", "empty"},
		{"toolu_4", "fails_for_now", "transient_fail"},
		{"toolu_5", "fails", "permanent_fail"},
		{"toolu_6", "pays", "unknown"},
	} {
		log.Reset()
		s.Call(calltest.Request(c.id, c.tool))
		if !strings.Contains(log.String(), " outcome="+c.want+" ") {
			t.Errorf("%s, want %s: %s", c.tool, c.want, log.String())
		}
	}
}
