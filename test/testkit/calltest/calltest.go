// Package calltest runs the pipeline without a network: backends that do what a
// test says and count what they were asked, and a sidecar over the memory store.
package calltest

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Backend runs a function and counts what it was asked to do.
type Backend struct {
	Do    func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure)
	Calls atomic.Int32
	mu    sync.Mutex
	Keys  []string
}

// Invoke implements backend.Backend.
func (b *Backend) Invoke(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
	b.Calls.Add(1)
	b.mu.Lock()
	b.Keys = append(b.Keys, in.IdempotencyKey)
	b.mu.Unlock()
	return b.Do(ctx, in)
}

// Close implements backend.Backend.
func (b *Backend) Close(context.Context) error { return nil }

// Answers is a backend that always gives the same text.
func Answers(text string) *Backend {
	return &Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte(text), JSON: json.Valid([]byte(text))}, nil
	}}
}

// Fails is a backend that fails n times and then answers "ok".
func Fails(n int32, failure tool.Failure) *Backend {
	b := &Backend{}
	b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		if b.Calls.Load() <= n {
			f := failure
			return tool.Reply{}, &f
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}
	return b
}

// Always is more often than any test asks.
const Always = 1 << 30

// What a backend may fail with: the code, and what it proves.
var (
	Refused   = tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted, Unreached: true}
	CutOff    = tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.Ambiguous}
	TimedOut  = tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	NotFound  = tool.Failure{Code: tool.CodeNotFound, Evidence: tool.Definite, CallerFault: true, Message: "no order A-9"}
	TooMany   = tool.Failure{Code: tool.CodeRateLimited, Evidence: tool.NotExecuted, RetryAfter: time.Hour}
	Cancelled = tool.Failure{Code: tool.CodeCancelled, Evidence: tool.Ambiguous}
)

// Sidecar is an executor over a store in memory, with no network anywhere.
type Sidecar struct {
	*call.Executor

	T       *testing.T
	Store   dedupe.Store
	Catalog *catalog.Catalog
	// Generation is what its catalog holds.
	Generation *catalog.Generation
}

// New returns a sidecar over a memory store.
func New(t *testing.T, routes ...*catalog.Route) *Sidecar {
	t.Helper()
	return NewOn(t, embedded.InMemory(embedded.Options{}), routes...)
}

// NewOn returns a sidecar over a store, which is its own from now on.
func NewOn(t *testing.T, store dedupe.Store, routes ...*catalog.Route) *Sidecar {
	t.Helper()
	return NewWith(t, store, dedupe.Options{}, routes...)
}

// NewWith is NewOn, as a process with these options.
func NewWith(t *testing.T, store dedupe.Store, options dedupe.Options, routes ...*catalog.Route) *Sidecar {
	t.Helper()
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	claims := dedupe.New(store, options)
	t.Cleanup(func() {
		if err := claims.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := observed.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &Sidecar{Store: store, Executor: call.New(call.Parts{
		Catalog: catalog.New(nil), Dedupe: claims, Recorder: observed.Recorder, Limits: call.Limits{Slots: limit.NewBulkhead(1000)},
	})}
	return s.Beside(t, routes...)
}

// Beside is the same process with a catalog, profiles and limits of its own: what it
// is after a reload.
func (s *Sidecar) Beside(t *testing.T, routes ...*catalog.Route) *Sidecar {
	t.Helper()
	generation := catalog.NewGeneration(catalog.Profiles{Default: "all", ByName: map[string]catalog.Profile{
		"all": {Name: "all", Tools: []string{"*"}}, "narrow": {Name: "narrow", Tools: []string{"get_*"}},
	}}, catalog.Limits{KeepOutputBytes: 1 << 20, OutputTTL: time.Hour, BatchParallel: 8, MaxBatch: 128, KeepArguments: true, RequireIDs: []string{"conversation_id"}})
	generation.Advise(advice(t, failures.Options{}))
	generation.Set(catalog.ConfigSource, routes)
	parts, tools := s.Parts, catalog.New(generation)
	parts.Catalog = tools
	return &Sidecar{T: t, Store: s.Store, Catalog: tools, Generation: generation, Executor: call.New(parts)}
}

// Limit changes the limits of the sidecar.
func (s *Sidecar) Limit(change func(*catalog.Limits)) {
	before := s.Catalog.Snapshot()
	limits := before.Limits
	change(&limits)
	s.Generation = catalog.NewGeneration(before.Profiles, limits)
	s.Generation.Advise(before.Advice)
	s.Generation.Set(catalog.ConfigSource, before.Routes(before.Profiles.ByName["all"]))
	s.Catalog.Swap(s.Generation)
}

// Profile declares a profile.
func (s *Sidecar) Profile(p catalog.Profile) {
	before := s.Catalog.Snapshot()
	profiles := catalog.Profiles{Default: before.Profiles.Default, ByName: maps.Clone(before.Profiles.ByName)}
	profiles.ByName[p.Name] = p
	s.Generation = catalog.NewGeneration(profiles, before.Limits)
	s.Generation.Advise(before.Advice)
	s.Generation.Set(catalog.ConfigSource, before.Routes(before.Profiles.ByName["all"]))
	s.Catalog.Swap(s.Generation)
}

// Advise changes by what failed calls are told.
func (s *Sidecar) Advise(opts failures.Options) { s.Generation.Advise(advice(s.T, opts)) }

func advice(t *testing.T, opts failures.Options) catalog.Advice {
	t.Helper()
	advisor, err := failures.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Advice{Advisor: advisor, UnknownTools: true}
}

// With gives the sidecar other parts.
func (s *Sidecar) With(change func(*call.Parts)) {
	parts := s.Parts
	change(&parts)
	s.Executor = call.New(parts)
}

// NewRoute registers a tool with short waits; change adjusts it.
func NewRoute(t *testing.T, name string, effect tool.Effect, b backend.Backend, change ...func(*catalog.Route)) *catalog.Route {
	t.Helper()
	r := &catalog.Route{
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
	if r.Schema, err = schema.Compile(name, r.Tool.InputSchema, schema.Options{Sensitive: r.Tool.Policy.Sensitive, Coerce: r.Tool.Policy.Coerce}); err != nil {
		t.Fatal(err)
	}
	targeting, err := failures.NewTargeting(nil, r.Tool.InputSchema, r.Schema.Secret)
	if err != nil {
		t.Fatal(err)
	}
	r.Recovery, r.Search = &catalog.Recovery{Targeting: targeting}, targeting
	if r.Program == nil {
		if r.Program, err = interpret.Compile(interpret.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// WithBreaker gives a route breakers that stay open for a minute: its own, and that of
// its connection.
func WithBreaker(failures uint32) func(*catalog.Route) {
	return func(r *catalog.Route) {
		r.Breaker, r.Connection = NewBreaker("shop/"+r.Tool.Name, failures), NewBreaker("shop", failures)
	}
}

// NewBreaker returns a breaker that stays open for a minute.
func NewBreaker(name string, failures uint32) *breaker.Breaker {
	return breaker.New(breaker.Settings{Name: name, Failures: failures, Window: time.Minute, OpenFor: time.Minute})
}

// Request is a valid call of a tool.
func Request(id, toolName string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: toolName, ArgumentsJson: `{"order_id":"A-1"}`, ConversationId: "c1", TurnId: "t1",
	}
}

// Execute runs a call on a lease of its own, as a front does.
func (s *Sidecar) Execute(ctx context.Context, req call.Request) *sidecallv1.ExecuteToolResponse {
	lease := s.Parts.Catalog.Lease()
	defer lease.Release()
	return s.Executor.Execute(ctx, lease, req)
}

// ExecuteBatch runs the calls of a turn likewise.
func (s *Sidecar) ExecuteBatch(ctx context.Context, requests []call.Request) []*sidecallv1.ExecuteToolResponse {
	lease := s.Parts.Catalog.Lease()
	defer lease.Release()
	return s.Executor.ExecuteBatch(ctx, lease, requests, 0)
}

// Call runs a call and checks what holds for every response.
func (s *Sidecar) Call(req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse {
	s.T.Helper()
	res := s.Execute(s.T.Context(), call.NewRequest("", req))
	CheckInvariants(s.T, req, res)
	return res
}

// CheckInvariants is what holds for every response whatsoever.
func CheckInvariants(t *testing.T, req *sidecallv1.ExecuteToolRequest, res *sidecallv1.ExecuteToolResponse) {
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

// Code is the code of a result; empty when it is no error.
func Code(res *sidecallv1.ExecuteToolResponse) tool.Code { return tool.Code(res.GetError().GetCode()) }

// State is the state of the record of a call of the tests' conversation.
func (s *Sidecar) State(id string) dedupe.State {
	s.T.Helper()
	record, err := s.Dedupe.Lookup(s.T.Context(), tool.CallID{Conversation: "c1", Turn: "t1", ID: id})
	if err != nil {
		s.T.Fatal(err)
	}
	return record.State
}
