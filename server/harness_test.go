package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

// fakeBackend runs a function and counts what it was asked to do.
type fakeBackend struct {
	do    func(ctx context.Context, in backend.Invocation) (backend.Reply, *tool.Failure)
	calls atomic.Int32
	mu    sync.Mutex
	keys  []string
}

func (b *fakeBackend) Invoke(ctx context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
	b.calls.Add(1)
	b.mu.Lock()
	b.keys = append(b.keys, in.IdempotencyKey)
	b.mu.Unlock()
	return b.do(ctx, in)
}

func (b *fakeBackend) Close(context.Context) error { return nil }

// answers is a backend that always gives the same text.
func answers(text string) *fakeBackend {
	return &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		return backend.Reply{Text: []byte(text), JSON: json.Valid([]byte(text))}, nil
	}}
}

// fails is a backend that fails n times and then answers "ok".
func fails(n int32, failure tool.Failure) *fakeBackend {
	b := &fakeBackend{}
	b.do = func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		if b.calls.Load() <= n {
			f := failure
			return backend.Reply{}, &f
		}
		return backend.Reply{Text: []byte("ok")}, nil
	}
	return b
}

const always = 1 << 30

var (
	refused   = tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted}
	cutOff    = tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.Ambiguous}
	timedOut  = tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	notFound  = tool.Failure{Code: tool.CodeNotFound, Evidence: tool.Definite, CallerFault: true, Message: "no order A-9"}
	tooMany   = tool.Failure{Code: tool.CodeRateLimited, Evidence: tool.NotExecuted, RetryAfter: time.Hour}
	cancelled = tool.Failure{Code: tool.CodeCancelled, Evidence: tool.Ambiguous}
)

// sidecar is an executor over the memory store with no network anywhere.
type sidecar struct {
	*Executor
	t       *testing.T
	store   dedupe.Store
	service *Service
}

func newSidecar(t *testing.T, routes ...*Route) *sidecar {
	t.Helper()
	store := memory.New(memory.Options{})
	return newSidecarOn(t, store, routes...)
}

func newSidecarOn(t *testing.T, store dedupe.Store, routes ...*Route) *sidecar {
	t.Helper()
	observed, err := telemetry.Start(t.Context(), "test", slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	claims := dedupe.New(store, dedupe.Options{})
	t.Cleanup(func() {
		if err := claims.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := observed.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	registry := NewRegistry()
	registry.Set(ConfigSource, routes)
	e := &Executor{
		Registry: registry,
		Profiles: Profiles{Default: "all", ByName: map[string]Profile{
			"all": {Name: "all", Tools: []string{"*"}}, "narrow": {Name: "narrow", Tools: []string{"get_*"}},
		}},
		Dedupe:   claims,
		Recorder: observed.Recorder,
		Slots:    limit.NewBulkhead(1000),
		Options:  Options{KeepOutputBytes: 1 << 20, OutputTTL: time.Hour, BatchParallel: 8},
	}
	return &sidecar{Executor: e, t: t, store: store, service: &Service{Executor: e, Drain: NewDrain(), MaxBatch: 128}}
}

// newRoute registers a tool with short waits; change adjusts it.
func newRoute(t *testing.T, name string, effect tool.Effect, b backend.Backend, change ...func(*Route)) *Route {
	t.Helper()
	r := &Route{
		Tool: tool.Tool{
			Name: name, Effect: effect, Backend: "shop",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"order_id":{"type":"string"},"cents":{"type":"integer","minimum":1}},"required":["order_id"],"additionalProperties":false}`),
			Policy: tool.Policy{
				AttemptTimeout: time.Second, Deadline: 5 * time.Second,
				Retry:          tool.Retry{MaxAttempts: 3, Base: time.Millisecond, Multiplier: 2, Max: 4 * time.Millisecond},
				MaxOutputChars: 8000, OutputStrategy: "auto",
			},
		},
		Backend: b, Target: name,
		Slots: limit.NewBulkhead(100),
	}
	for _, f := range change {
		f(r)
	}
	var err error
	if r.Schema, err = schema.Compile(name, r.Tool.InputSchema, schema.Options{}); err != nil {
		t.Fatal(err)
	}
	if r.Program == nil {
		if r.Program, err = interpret.Compile(interpret.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func withBreaker(failures uint32) func(*Route) {
	return func(r *Route) {
		r.Breaker = breaker.New(breaker.Settings{Name: "shop", Failures: failures, Window: time.Minute, OpenFor: time.Minute})
	}
}

// request is a valid call of a tool.
func request(id, toolName string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: toolName, ArgumentsJson: `{"order_id":"A-1"}`, ConversationId: "c1", TurnId: "t1",
	}
}

func (s *sidecar) call(req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse {
	s.t.Helper()
	res := s.Execute(s.t.Context(), "", req)
	checkInvariants(s.t, req, res)
	return res
}

// checkInvariants is what holds for every response whatsoever.
func checkInvariants(t *testing.T, req *sidecallv1.ExecuteToolRequest, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	switch {
	case res == nil:
		t.Fatal("a call without a result")
	case res.GetToolUseId() != req.GetToolUseId():
		t.Errorf("tool_use_id = %q, want %q", res.GetToolUseId(), req.GetToolUseId())
	case res.GetOutcome() == sidecallv1.Outcome_OUTCOME_UNSPECIFIED:
		t.Error("no outcome")
	case res.GetIsError() != (res.GetOutcome() == sidecallv1.Outcome_OUTCOME_ERROR):
		t.Error("is_error and outcome disagree")
	case res.GetIsError() != (res.GetError() != nil) || res.GetIsError() != (res.GetRecovery() != nil):
		t.Error("error or recovery is set when it must not be, or missing")
	}
	if !res.GetIsError() {
		return
	}
	var five map[string]json.RawMessage
	if err := json.Unmarshal([]byte(res.GetContent()), &five); err != nil {
		t.Fatalf("the error is not JSON: %v\n%s", err, res.GetContent())
	}
	for _, key := range []string{"code", "field", "constraint", "received", "hint"} {
		if _, ok := five[key]; !ok {
			t.Errorf("the error has no %s: %s", key, res.GetContent())
		}
		delete(five, key)
	}
	delete(five, "more")
	if len(five) > 0 {
		t.Errorf("the error has other keys: %s", res.GetContent())
	}
	if res.GetError().GetHint() == "" || res.GetError().GetConstraint() == "" {
		t.Errorf("an error without hint or constraint: %s", res.GetContent())
	}
	if !tool.Code(res.GetError().GetCode()).Valid() {
		t.Errorf("unknown code %q", res.GetError().GetCode())
	}
}

func code(res *sidecallv1.ExecuteToolResponse) tool.Code { return tool.Code(res.GetError().GetCode()) }

func (s *sidecar) state(id string) dedupe.State {
	s.t.Helper()
	record, err := s.Dedupe.Lookup(s.t.Context(), dedupe.Key{Conversation: "c1", Turn: "t1", ID: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return record.State
}
