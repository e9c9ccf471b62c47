package call_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

const (
	stateDone    = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	stateNotRun  = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	stateUnknown = sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
)

// operator is the surface of operators, to which the user ann connects.
func operator(s *calltest.Sidecar) byAnn {
	return byAnn{&server.Operator{Executor: s.Executor}}
}

type byAnn struct{ *server.Operator }

func isAnn(ctx context.Context) context.Context {
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: server.User{Name: "ann"}})
}

func (o byAnn) ResolveExecution(ctx context.Context, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.ResolveExecutionResponse, error) {
	return o.Operator.ResolveExecution(isAnn(ctx), req)
}

func (o byAnn) VerifyExecution(ctx context.Context, req *sidecallv1.VerifyExecutionRequest) (*sidecallv1.VerifyExecutionResponse, error) {
	return o.Operator.VerifyExecution(isAnn(ctx), req)
}

// resolution is a request that settles toolu_1 of the tests' conversation.
func resolution(as sidecallv1.ExecutionState, change ...func(*sidecallv1.ResolveExecutionRequest)) *sidecallv1.ResolveExecutionRequest {
	req := &sidecallv1.ResolveExecutionRequest{
		ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1", State: as,
		Reason: "the bank's statement shows it", ResolvedBy: "ann",
	}
	for _, f := range change {
		f(req)
	}
	return req
}

// lost is a sidecar whose refund toolu_1 is unknown.
func lost(t *testing.T) (*calltest.Sidecar, *calltest.Backend) {
	t.Helper()
	b := calltest.Fails(1, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
		t.Fatalf("got %v", res)
	}
	return s, b
}

func wantStatus(t *testing.T, err error, want codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("status %v, want %v", err, want)
	}
	for _, word := range words {
		if !strings.Contains(status.Convert(err).Message(), word) {
			t.Errorf("%q does not say %q", status.Convert(err).Message(), word)
		}
	}
}

func TestResolvedAsDone(t *testing.T) {
	s, b := lost(t)
	res, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
		r.Content, r.Epoch = "refund r-77", 1
	}))
	if err != nil {
		t.Fatal(err)
	}
	made := res.GetExecution().GetResult().GetResolution()
	if res.GetExecution().GetState() != stateDone || made.GetBy() != "ann" || made.GetReason() != "the bank's statement shows it" ||
		made.GetState() != stateDone || made.GetAt() == nil || made.GetVerifiedWith() != "" {
		t.Errorf("the record is %v", res.GetExecution())
	}
	again := s.Call(calltest.Request("toolu_1", "refund"))
	want := "refund has happened. Its own answer was lost; this was settled by hand, by ann: the bank's statement shows it\nrefund r-77"
	if again.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || !again.GetReplayed() || !again.GetRecorded() || again.GetContent() != want || !proto.Equal(again.GetResolution(), made) {
		t.Errorf("a duplicate got %v", again)
	}
	if b.Calls.Load() != 1 {
		t.Errorf("%d executions, want 1", b.Calls.Load())
	}
}

func TestResolvedAsFailed(t *testing.T) {
	s, b := lost(t)
	if _, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
		r.Content, r.IsError = "card expired", true
	})); err != nil {
		t.Fatal(err)
	}
	again := s.Call(calltest.Request("toolu_1", "refund")) // checks the shape of the error
	if calltest.Code(again) != tool.CodeUnrecoverable || !again.GetReplayed() || again.GetError().GetReceived() != "card expired" ||
		!strings.Contains(again.GetError().GetConstraint(), "settled by hand") || again.GetRecovery().GetAttempts() != 1 || b.Calls.Load() != 1 {
		t.Errorf("a duplicate got %v", again)
	}
}

func TestResolvedAsNotRunRunsAgain(t *testing.T) {
	s, b := lost(t)
	res, err := operator(s).ResolveExecution(t.Context(), resolution(stateNotRun))
	if err != nil {
		t.Fatal(err)
	}
	record := res.GetExecution()
	if record.GetState() != stateNotRun || record.GetResult().GetResolution().GetState() != stateNotRun ||
		record.GetResult().GetError().GetCode() != string(tool.CodeOutcomeUnknown) || record.GetAttempts() != 1 {
		t.Errorf("the record is %v", record)
	}
	again := s.Call(calltest.Request("toolu_1", "refund"))
	if again.GetIsError() || again.GetReplayed() || again.GetContent() != "ok" || again.GetResolution() != nil || b.Calls.Load() != 2 {
		t.Errorf("the next request got %v, %d executions", again, b.Calls.Load())
	}
	now, err := service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
	if err != nil || now.GetEpoch() != 2 {
		t.Errorf("%v, %v: want epoch 2", now, err)
	}
}

// A call of a sidecar that died without a word is settled too.
func TestResolvedWithoutARecordedAnswer(t *testing.T) {
	for _, as := range []sidecallv1.ExecutionState{stateDone, stateNotRun} {
		bubble(t, func(t *testing.T) {
			b := calltest.Answers("ok")
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
			abandon(s, t, "toolu_1", "refund")
			_, err := operator(s).ResolveExecution(t.Context(), resolution(as))
			wantStatus(t, err, codes.FailedPrecondition, "claimed", "lease")
			time.Sleep(31 * time.Second)
			res, err := operator(s).ResolveExecution(t.Context(), resolution(as))
			if err != nil || res.GetExecution().GetState() != as || res.GetExecution().GetResult().GetResolution().GetBy() != "ann" {
				t.Fatalf("%v, %v", res, err)
			}
			again := s.Call(calltest.Request("toolu_1", "refund"))
			if again.GetIsError() || again.GetReplayed() != (as == stateDone) || b.Calls.Load() == 1 != (as == stateNotRun) {
				t.Errorf("%v: %v, %d executions", as, again, b.Calls.Load())
			}
		})
	}
}

// What is not unknown cannot be settled, and says what it is.
func TestOnlyUnknownCallsAreResolved(t *testing.T) {
	gate := make(chan struct{})
	started := make(chan struct{})
	b := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		if in.Attempt == 1 && in.Parsed["cents"] != nil {
			close(started)
			<-gate
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}}
	notRun := calltest.NewRoute(t, "idle", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused), func(r *catalog.Route) { r.Tool.Policy.Retry.MaxAttempts = 1 })
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), notRun)
	named := func(id string) func(*sidecallv1.ResolveExecutionRequest) {
		return func(r *sidecallv1.ResolveExecutionRequest) { r.ToolUseId = id }
	}
	running := make(chan *sidecallv1.ExecuteToolResponse)
	go func() {
		req := calltest.Request("running", "refund")
		req.ArgumentsJson = `{"order_id":"A-1","cents":1}`
		running <- s.Execute(t.Context(), call.NewRequest("", req))
	}()
	<-started
	s.Call(calltest.Request("done", "refund"))
	s.Call(calltest.Request("not_run", "idle"))
	for _, as := range []sidecallv1.ExecutionState{stateDone, stateNotRun} {
		for id, want := range map[string]struct {
			code  codes.Code
			words []string
		}{
			"running": {codes.FailedPrecondition, []string{"claimed", "lease runs until", "wait"}},
			"done":    {codes.FailedPrecondition, []string{"done already", "final", "GetExecution"}},
			"not_run": {codes.FailedPrecondition, []string{"not_run already", "may be sent again"}},
			"never":   {codes.NotFound, []string{"no record", "conversation_id"}},
		} {
			before := s.State(id)
			_, err := operator(s).ResolveExecution(t.Context(), resolution(as, named(id)))
			wantStatus(t, err, want.code, want.words...)
			_, err = operator(s).VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: id})
			wantStatus(t, err, want.code, want.words...)
			if s.State(id) != before {
				t.Errorf("%s: the state went from %v to %v", id, before, s.State(id))
			}
		}
	}
	close(gate)
	if res := <-running; res.GetIsError() || res.GetResolution() != nil {
		t.Errorf("the call that ran got %v", res)
	}
}

func TestResolutionsThatAreRefused(t *testing.T) {
	s, _ := lost(t)
	long := strings.Repeat("é", 8001)
	for name, test := range map[string]struct {
		change func(*sidecallv1.ResolveExecutionRequest)
		code   codes.Code
		word   string
	}{
		"no id":                 {func(r *sidecallv1.ResolveExecutionRequest) { r.ToolUseId = "" }, codes.InvalidArgument, "tool_use_id"},
		"a long id":             {func(r *sidecallv1.ResolveExecutionRequest) { r.TurnId = long }, codes.InvalidArgument, "turn_id"},
		"no state":              {func(r *sidecallv1.ResolveExecutionRequest) { r.State = 0 }, codes.InvalidArgument, "state"},
		"another state":         {func(r *sidecallv1.ResolveExecutionRequest) { r.State = stateUnknown }, codes.InvalidArgument, "NOT_RUN"},
		"no reason":             {func(r *sidecallv1.ResolveExecutionRequest) { r.Reason = "" }, codes.InvalidArgument, "reason"},
		"a reason of nothing":   {func(r *sidecallv1.ResolveExecutionRequest) { r.Reason = " \n\x1b\u200b" }, codes.InvalidArgument, "reason"},
		"a long reason":         {func(r *sidecallv1.ResolveExecutionRequest) { r.Reason = long[:1002] }, codes.InvalidArgument, "at most 500"},
		"a long name":           {func(r *sidecallv1.ResolveExecutionRequest) { r.ResolvedBy = long[:258] }, codes.InvalidArgument, "at most 128"},
		"long content":          {func(r *sidecallv1.ResolveExecutionRequest) { r.Content = long }, codes.InvalidArgument, "at most 8000"},
		"more than a tool says": {func(r *sidecallv1.ResolveExecutionRequest) { r.Content = long[:15_900] }, codes.InvalidArgument, "refund returns at most 8000"},
		"a long error":          {func(r *sidecallv1.ResolveExecutionRequest) { r.Content, r.IsError = long[:802], true }, codes.InvalidArgument, "at most 400"},
		"a result of nothing":   {func(r *sidecallv1.ResolveExecutionRequest) { r.State, r.Content = stateNotRun, "x" }, codes.InvalidArgument, "content"},
		"a negative epoch":      {func(r *sidecallv1.ResolveExecutionRequest) { r.Epoch = -1 }, codes.InvalidArgument, "epoch"},
		"another epoch":         {func(r *sidecallv1.ResolveExecutionRequest) { r.Epoch = 2 }, codes.FailedPrecondition, "epoch 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone, test.change))
			wantStatus(t, err, test.code, test.word)
			if s.State("toolu_1") != dedupe.Unknown {
				t.Errorf("the state is %v now", s.State("toolu_1"))
			}
		})
	}
}

// What a person types is shown to a model and to people: one line, and nothing
// in it that is not to be seen.
func TestResolutionsAreCleanedAndWrittenDown(t *testing.T) {
	var log bytes.Buffer
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := lost(t)
	s.With(func(p *call.Parts) { p.Recorder = observed.Recorder })
	route, _ := s.Catalog.Snapshot().Lookup("refund")
	route.Secrets = redact.New("s3cr3t")
	res, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
		r.Reason, r.ResolvedBy, r.Content = " seen\x1b[31m in\nthe log of s3cr3t ", "ann\x00\u202e", "token s3cr3t\x07"
	}))
	if err != nil {
		t.Fatal(err)
	}
	made := res.GetExecution().GetResult()
	if made.GetResolution().GetReason() != "seen in the log of (redacted)" || made.GetResolution().GetBy() != "ann" || !strings.HasSuffix(made.GetContent(), "\ntoken (redacted)") {
		t.Errorf("recorded is %v", made)
	}
	page := httptest.NewRecorder()
	observed.Metrics.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if err := observed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `"msg":"resolve","conversation":"c1","turn":"t1","tool_use_id":"toolu_1","tool":"refund","from":"unknown","to":"done","epoch":1,"by":"ann","reason":"seen in the log of (redacted)"}`
	if strings.Count(log.String(), want) != 1 {
		t.Errorf("the log lacks %s:\n%s", want, &log)
	}
	if !strings.Contains(page.Body.String(), `sidecall_resolutions_total{by="operator"`) || !strings.Contains(page.Body.String(), `state="done"} 1`) {
		t.Errorf("not counted:\n%s", page.Body)
	}
}

// A call is settled even when its tool is gone since.
func TestResolvedWithoutItsTool(t *testing.T) {
	s, _ := lost(t)
	s.Generation.Set(catalog.ConfigSource, nil)
	list, err := operator(s).ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	_, err = operator(s).VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
	wantStatus(t, err, codes.FailedPrecondition, "no verification is configured for the tool refund")
	res, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone))
	if err != nil || res.GetExecution().GetState() != stateDone {
		t.Errorf("%v, %v", res, err)
	}
}

// silentStore takes settlements, or does not, and does not answer.
type silentStore struct{ dedupe.Store }

func (s silentStore) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if settlement.Resolves {
		return 0, errors.New("connection reset")
	}
	return s.Store.Settle(ctx, settlement)
}

func TestAStoreThatDoesNotAnswerAResolution(t *testing.T) {
	s := calltest.NewOn(t, silentStore{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	s.Call(calltest.Request("toolu_1", "refund"))
	_, err := operator(s).ResolveExecution(t.Context(), resolution(stateDone))
	wantStatus(t, err, codes.Unavailable, "may be settled or not", "look at it")

	up := &shop{}
	refund, look := up.routes(t)
	s = calltest.NewOn(t, silentStore{embedded.InMemory(embedded.Options{})}, refund, look)
	s.Call(calltest.Request("toolu_1", "refund"))
	up.refunds.Add(1)
	s.With(func(*call.Parts) {}) // forgets what it has looked at
	if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown {
		t.Errorf("a verification that could not be recorded: %v", res)
	}
}

// racingStore lets the owner speak just before a resolution arrives.
type racingStore struct {
	dedupe.Store

	first func()
}

func (s *racingStore) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if settlement.Resolves && s.first != nil {
		s.first()
		s.first = nil
	}
	return s.Store.Settle(ctx, settlement)
}

func TestTheLateOwnerIsFasterThanTheOperator(t *testing.T) {
	store := &racingStore{Store: embedded.InMemory(embedded.Options{})}
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	s.Call(calltest.Request("toolu_1", "refund"))
	key := tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}
	record, err := storetest.Lookup(t.Context(), store, key)
	if err != nil {
		t.Fatal(err)
	}
	store.first = func() {
		if v, err := store.Store.Settle(t.Context(), dedupe.Settlement{
			Key: key, Owner: record.Owner, Epoch: 1, State: dedupe.Done, Attempts: 1, Result: record.Result, Retention: time.Hour,
		}); err != nil || v != dedupe.Settled {
			t.Error(v, err)
		}
	}
	_, err = operator(s).ResolveExecution(t.Context(), resolution(stateNotRun))
	wantStatus(t, err, codes.FailedPrecondition, "done already")
	if s.State("toolu_1") != dedupe.Done {
		t.Errorf("state %v", s.State("toolu_1"))
	}
}

func TestVerifyExecution(t *testing.T) {
	ask := func(settle bool, args string) *sidecallv1.VerifyExecutionRequest {
		return &sidecallv1.VerifyExecutionRequest{
			ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1", ArgumentsJson: args, Settle: settle, ResolvedBy: "ann",
		}
	}
	const args = `{ "order_id" : "A-1" }`
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		s.Limit(func(l *catalog.Limits) { l.KeepArguments = false })
		s.Call(calltest.Request("toolu_1", "refund"))
		_, err := operator(s).VerifyExecution(t.Context(), ask(false, ""))
		wantStatus(t, err, codes.InvalidArgument, "arguments_json", "not kept")
		_, err = operator(s).VerifyExecution(t.Context(), ask(false, `{"order_id":"A-2"}`))
		wantStatus(t, err, codes.InvalidArgument, "other arguments")
		_, err = operator(s).VerifyExecution(t.Context(), ask(false, `{"order_id":`))
		wantStatus(t, err, codes.InvalidArgument, "arguments_json")

		time.Sleep(10 * time.Second)
		res, err := operator(s).VerifyExecution(t.Context(), ask(true, args))
		if err != nil || res.GetVerdict() != sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_TOO_EARLY || res.GetSettled() || res.GetExecution().GetState() != stateUnknown ||
			!res.GetNotBefore().AsTime().Equal(time.Now().Add(20*time.Second)) || !strings.Contains(res.GetExplanation(), "after 20s") {
			t.Fatalf("%v, %v", res, err)
		}
		time.Sleep(20 * time.Second)
		res, err = operator(s).VerifyExecution(t.Context(), ask(false, args))
		if err != nil || res.GetVerdict() != sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_NOT_RUN || res.GetSettled() || res.GetExecution().GetState() != stateUnknown {
			t.Fatalf("%v, %v", res, err)
		}
		res, err = operator(s).VerifyExecution(t.Context(), ask(true, args))
		if err != nil || !res.GetSettled() || res.GetExecution().GetState() != stateNotRun || res.GetExecution().GetResult().GetResolution().GetBy() != "ann" {
			t.Fatalf("%v, %v", res, err)
		}
	})
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		s.Call(calltest.Request("toolu_1", "refund"))
		time.Sleep(2 * time.Second)
		up.refunds.Add(1)
		res, err := operator(s).VerifyExecution(t.Context(), ask(false, "")) // its arguments are kept
		if err != nil || res.GetVerdict() != sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_DONE || res.GetSettled() || res.GetResult().GetContent() != `{"order":"A-1"}` {
			t.Fatalf("%v, %v", res, err)
		}
		res, err = operator(s).VerifyExecution(t.Context(), ask(true, args))
		if err != nil || !res.GetSettled() || res.GetExecution().GetState() != stateDone {
			t.Fatalf("%v, %v", res, err)
		}
		if again := s.Call(calltest.Request("toolu_1", "refund")); again.GetContent() != `{"order":"A-1"}` || again.GetResolution().GetBy() != "ann" || again.GetResolution().GetVerifiedWith() != "get_order" {
			t.Errorf("a duplicate got %v", again)
		}
	})
	bubble(t, func(t *testing.T) {
		up := &shop{look: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			f := calltest.CutOff
			return tool.Reply{}, &f
		}}
		s := up.sidecar(t)
		s.Call(calltest.Request("toolu_1", "refund"))
		res, err := operator(s).VerifyExecution(t.Context(), ask(true, args))
		if err != nil || res.GetVerdict() != sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_INCONCLUSIVE || res.GetSettled() || !strings.Contains(res.GetExplanation(), "DEPENDENCY_UNAVAILABLE") {
			t.Fatalf("%v, %v", res, err)
		}
	})
}

// A verification that reads no arguments needs none.
func TestVerifyExecutionByTheKeyAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: false}
		s := up.sidecar(t, func(refund, look *catalog.Route) {
			refund.Verification.Program = verification(t, map[string]string{"order_id": "idempotency_key"}, "size(result.refunds) > 0")
		})
		s.Call(calltest.Request("toolu_1", "refund"))
		time.Sleep(2 * time.Second)
		up.refunds.Add(1)
		res, err := operator(s).VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
		if err != nil || res.GetVerdict() != sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_DONE {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func TestListUnknown(t *testing.T) {
	up := &shop{}
	refund, look := up.routes(t)
	s := calltest.New(t, refund, look, calltest.NewRoute(t, "other", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	s.Call(calltest.Request("toolu_1", "refund"))
	s.Call(calltest.Request("toolu_2", "other"))
	s.Call(calltest.Request("toolu_3", "get_order"))
	list, err := operator(s).ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != 2 || list.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", list, err)
	}
	first, second := list.GetExecutions()[0], list.GetExecutions()[1]
	if first.GetToolUseId() != "toolu_1" || first.GetConversationId() != "c1" || first.GetTurnId() != "t1" || len(first.GetFingerprint()) != 12 ||
		first.GetVerifyWith() != "get_order" || !first.GetVerifiable() || first.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("got %v", first)
	}
	e := first.GetExecution()
	if e.GetState() != stateUnknown || e.GetToolName() != "refund" || e.GetAttempts() != 1 || e.GetEpoch() != 1 || e.GetOwner() == "" ||
		e.GetStartedAt() == nil || e.GetFinishedAt() == nil || e.GetResult() != nil || e.GetEffect() != sidecallv1.Effect_EFFECT_NON_IDEMPOTENT {
		t.Errorf("its record is %v", e)
	}
	if second.GetToolUseId() != "toolu_2" || second.GetVerifyWith() != "" || second.GetVerifiable() || second.GetFingerprint() == first.GetFingerprint() {
		t.Errorf("got %v", second)
	}
	for name, req := range map[string]*sidecallv1.ListUnknownRequest{
		"page_size":  {PageSize: 1001},
		"page_size:": {PageSize: -1},
		"page_token": {PageToken: "%"},
		"begin the":  {PageToken: base64.RawURLEncoding.EncodeToString([]byte(`{"from":"nonsense"}`))},
	} {
		_, err := operator(s).ListUnknown(t.Context(), req)
		wantStatus(t, err, codes.InvalidArgument, name)
	}
}
