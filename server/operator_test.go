package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

const (
	stateDone    = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	stateNotRun  = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	stateUnknown = sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
)

func (s *sidecar) operator() *Operator { return &Operator{Executor: s.Executor, Drain: NewDrain()} }

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
func lost(t *testing.T) (*sidecar, *fakeBackend) {
	t.Helper()
	b := fails(1, cutOff)
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	if res := s.call(request("toolu_1", "refund")); code(res) != tool.CodeOutcomeUnknown {
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
	res, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
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
	again := s.call(request("toolu_1", "refund"))
	want := "refund has happened. Its own answer was lost; this was settled by hand, by ann: the bank's statement shows it\nrefund r-77"
	if again.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || !again.GetReplayed() || !again.GetRecorded() || again.GetContent() != want || !proto.Equal(again.GetResolution(), made) {
		t.Errorf("a duplicate got %v", again)
	}
	if b.calls.Load() != 1 {
		t.Errorf("%d executions, want 1", b.calls.Load())
	}
}

func TestResolvedAsFailed(t *testing.T) {
	s, b := lost(t)
	if _, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
		r.Content, r.IsError = "card expired", true
	})); err != nil {
		t.Fatal(err)
	}
	again := s.call(request("toolu_1", "refund")) // checks the shape of the error
	if code(again) != tool.CodeUnrecoverable || !again.GetReplayed() || again.GetError().GetReceived() != "card expired" ||
		!strings.Contains(again.GetError().GetConstraint(), "settled by hand") || again.GetRecovery().GetAttempts() != 1 || b.calls.Load() != 1 {
		t.Errorf("a duplicate got %v", again)
	}
}

func TestResolvedAsNotRunRunsAgain(t *testing.T) {
	s, b := lost(t)
	res, err := s.operator().ResolveExecution(t.Context(), resolution(stateNotRun))
	if err != nil {
		t.Fatal(err)
	}
	record := res.GetExecution()
	if record.GetState() != stateNotRun || record.GetResult().GetResolution().GetState() != stateNotRun ||
		record.GetResult().GetError().GetCode() != string(tool.CodeOutcomeUnknown) || record.GetAttempts() != 1 {
		t.Errorf("the record is %v", record)
	}
	again := s.call(request("toolu_1", "refund"))
	if again.GetIsError() || again.GetReplayed() || again.GetContent() != "ok" || again.GetResolution() != nil || b.calls.Load() != 2 {
		t.Errorf("the next request got %v, %d executions", again, b.calls.Load())
	}
	now, err := s.service.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
	if err != nil || now.GetEpoch() != 2 {
		t.Errorf("%v, %v: want epoch 2", now, err)
	}
}

// A call of a sidecar that died without a word is settled too.
func TestResolvedWithoutARecordedAnswer(t *testing.T) {
	for _, as := range []sidecallv1.ExecutionState{stateDone, stateNotRun} {
		bubble(t, func(t *testing.T) {
			b := answers("ok")
			s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
			s.abandon(t, "toolu_1", "refund")
			_, err := s.operator().ResolveExecution(t.Context(), resolution(as))
			wantStatus(t, err, codes.FailedPrecondition, "claimed", "lease")
			time.Sleep(31 * time.Second)
			res, err := s.operator().ResolveExecution(t.Context(), resolution(as))
			if err != nil || res.GetExecution().GetState() != as || res.GetExecution().GetResult().GetResolution().GetBy() != "ann" {
				t.Fatalf("%v, %v", res, err)
			}
			again := s.call(request("toolu_1", "refund"))
			if again.GetIsError() || again.GetReplayed() != (as == stateDone) || b.calls.Load() == 1 != (as == stateNotRun) {
				t.Errorf("%v: %v, %d executions", as, again, b.calls.Load())
			}
		})
	}
}

// What is not unknown cannot be settled, and says what it is.
func TestOnlyUnknownCallsAreResolved(t *testing.T) {
	gate := make(chan struct{})
	started := make(chan struct{})
	b := &fakeBackend{do: func(_ context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
		if in.Attempt == 1 && in.Parsed["cents"] != nil {
			close(started)
			<-gate
		}
		return backend.Reply{Text: []byte("ok")}, nil
	}}
	notRun := newRoute(t, "idle", tool.NonIdempotent, fails(always, refused), func(r *Route) { r.Tool.Policy.Retry.MaxAttempts = 1 })
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b), notRun)
	named := func(id string) func(*sidecallv1.ResolveExecutionRequest) {
		return func(r *sidecallv1.ResolveExecutionRequest) { r.ToolUseId = id }
	}
	running := make(chan *sidecallv1.ExecuteToolResponse)
	go func() {
		req := request("running", "refund")
		req.ArgumentsJson = `{"order_id":"A-1","cents":1}`
		running <- s.Execute(t.Context(), "", req)
	}()
	<-started
	s.call(request("done", "refund"))
	s.call(request("not_run", "idle"))
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
			before := s.state(id)
			_, err := s.operator().ResolveExecution(t.Context(), resolution(as, named(id)))
			wantStatus(t, err, want.code, want.words...)
			_, err = s.operator().VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: id})
			wantStatus(t, err, want.code, want.words...)
			if s.state(id) != before {
				t.Errorf("%s: the state went from %v to %v", id, before, s.state(id))
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
			_, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone, test.change))
			wantStatus(t, err, test.code, test.word)
			if s.state("toolu_1") != dedupe.Unknown {
				t.Errorf("the state is %v now", s.state("toolu_1"))
			}
		})
	}
	draining := s.operator()
	draining.Drain.Start(t.Context())
	_, err := draining.ResolveExecution(t.Context(), resolution(stateDone))
	wantStatus(t, err, codes.Unavailable)
}

// What a person types is shown to a model and to people: one line, and nothing
// in it that is not to be seen.
func TestResolutionsAreCleanedAndWrittenDown(t *testing.T) {
	var log bytes.Buffer
	observed, err := telemetry.Start(t.Context(), "test", slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := lost(t)
	s.Recorder = observed.Recorder
	route, _ := s.Registry.Lookup("refund")
	route.Secrets = strings.NewReplacer("s3cr3t", "(redacted)")
	res, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone, func(r *sidecallv1.ResolveExecutionRequest) {
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
	s.Registry.Set(ConfigSource, nil)
	list, err := s.operator().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(list.GetExecutions()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	_, err = s.operator().VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
	wantStatus(t, err, codes.FailedPrecondition, "no verification is configured for the tool refund")
	res, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone))
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
	s := newSidecarOn(t, silentStore{memory.New(memory.Options{})}, newRoute(t, "refund", tool.NonIdempotent, fails(always, cutOff)))
	s.call(request("toolu_1", "refund"))
	_, err := s.operator().ResolveExecution(t.Context(), resolution(stateDone))
	wantStatus(t, err, codes.Unavailable, "may be settled or not", "look at it")

	up := &shop{}
	refund, look := up.routes(t)
	s = newSidecarOn(t, silentStore{memory.New(memory.Options{})}, refund, look)
	s.call(request("toolu_1", "refund"))
	up.refunds.Add(1)
	s.verifications = verifications{} // a second has passed
	if res := s.call(request("toolu_1", "refund")); code(res) != tool.CodeOutcomeUnknown {
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
	store := &racingStore{Store: memory.New(memory.Options{})}
	s := newSidecarOn(t, store, newRoute(t, "refund", tool.NonIdempotent, fails(always, cutOff)))
	s.call(request("toolu_1", "refund"))
	key := dedupe.Key{Conversation: "c1", Turn: "t1", ID: "toolu_1"}
	record, err := store.Lookup(t.Context(), key)
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
	_, err = s.operator().ResolveExecution(t.Context(), resolution(stateNotRun))
	wantStatus(t, err, codes.FailedPrecondition, "done already")
	if s.state("toolu_1") != dedupe.Done {
		t.Errorf("state %v", s.state("toolu_1"))
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
		s.call(request("toolu_1", "refund"))
		_, err := s.operator().VerifyExecution(t.Context(), ask(false, ""))
		wantStatus(t, err, codes.InvalidArgument, "arguments_json", "not stored")
		_, err = s.operator().VerifyExecution(t.Context(), ask(false, `{"order_id":"A-2"}`))
		wantStatus(t, err, codes.InvalidArgument, "other arguments")
		_, err = s.operator().VerifyExecution(t.Context(), ask(false, `{"order_id":`))
		wantStatus(t, err, codes.InvalidArgument, "arguments_json")

		time.Sleep(10 * time.Second)
		res, err := s.operator().VerifyExecution(t.Context(), ask(true, args))
		if err != nil || res.GetVerdict() != verdictTooEarly || res.GetSettled() || res.GetExecution().GetState() != stateUnknown ||
			!res.GetNotBefore().AsTime().Equal(time.Now().Add(20*time.Second)) || !strings.Contains(res.GetExplanation(), "after 20s") {
			t.Fatalf("%v, %v", res, err)
		}
		time.Sleep(20 * time.Second)
		res, err = s.operator().VerifyExecution(t.Context(), ask(false, args))
		if err != nil || res.GetVerdict() != verdictNotRun || res.GetSettled() || res.GetExecution().GetState() != stateUnknown {
			t.Fatalf("%v, %v", res, err)
		}
		res, err = s.operator().VerifyExecution(t.Context(), ask(true, args))
		if err != nil || !res.GetSettled() || res.GetExecution().GetState() != stateNotRun || res.GetExecution().GetResult().GetResolution().GetBy() != "ann" {
			t.Fatalf("%v, %v", res, err)
		}
	})
	bubble(t, func(t *testing.T) {
		up := &shop{}
		s := up.sidecar(t)
		s.call(request("toolu_1", "refund"))
		time.Sleep(2 * time.Second)
		up.refunds.Add(1)
		res, err := s.operator().VerifyExecution(t.Context(), ask(false, args))
		if err != nil || res.GetVerdict() != verdictDone || res.GetSettled() || res.GetResult().GetContent() != `{"order":"A-1"}` {
			t.Fatalf("%v, %v", res, err)
		}
		res, err = s.operator().VerifyExecution(t.Context(), ask(true, args))
		if err != nil || !res.GetSettled() || res.GetExecution().GetState() != stateDone {
			t.Fatalf("%v, %v", res, err)
		}
		if again := s.call(request("toolu_1", "refund")); again.GetContent() != `{"order":"A-1"}` || again.GetResolution().GetBy() != "ann" || again.GetResolution().GetVerifiedWith() != "get_order" {
			t.Errorf("a duplicate got %v", again)
		}
	})
	bubble(t, func(t *testing.T) {
		up := &shop{look: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
			f := cutOff
			return backend.Reply{}, &f
		}}
		s := up.sidecar(t)
		s.call(request("toolu_1", "refund"))
		res, err := s.operator().VerifyExecution(t.Context(), ask(true, args))
		if err != nil || res.GetVerdict() != verdictInconclusive || res.GetSettled() || !strings.Contains(res.GetExplanation(), "DEPENDENCY_UNAVAILABLE") {
			t.Fatalf("%v, %v", res, err)
		}
	})
}

// A verification that reads no arguments needs none.
func TestVerifyExecutionByTheKeyAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: false}
		s := up.sidecar(t, func(refund, look *Route) {
			refund.Verification.Program = verification(t, map[string]string{"order_id": "idempotency_key"}, "size(result.refunds) > 0")
		})
		s.call(request("toolu_1", "refund"))
		time.Sleep(2 * time.Second)
		up.refunds.Add(1)
		res, err := s.operator().VerifyExecution(t.Context(), &sidecallv1.VerifyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
		if err != nil || res.GetVerdict() != verdictDone {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func TestListUnknown(t *testing.T) {
	up := &shop{}
	refund, look := up.routes(t)
	s := newSidecar(t, refund, look, newRoute(t, "other", tool.NonIdempotent, fails(always, cutOff)))
	s.call(request("toolu_1", "refund"))
	s.call(request("toolu_2", "other"))
	s.call(request("toolu_3", "get_order"))
	list, err := s.operator().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
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
		"begin the":  {PageToken: place{From: "nonsense"}.String()},
	} {
		_, err := s.operator().ListUnknown(t.Context(), req)
		wantStatus(t, err, codes.InvalidArgument, name)
	}
}

// listed is all that a listing gives, page by page.
func listed(t *testing.T, o *Operator, size int32) (ids map[string]int, pages int) {
	t.Helper()
	ids = map[string]int{}
	token := ""
	for {
		page, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: size, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetExecutions()) > int(size) || proto.Size(page) > maxPageBytes+4<<10 {
			t.Fatalf("a page of %d calls and %d bytes", len(page.GetExecutions()), proto.Size(page))
		}
		for _, e := range page.GetExecutions() {
			ids[e.GetToolUseId()]++
		}
		pages++
		if token = page.GetNextPageToken(); token == "" {
			return ids, pages
		}
	}
}

func TestListUnknownInPages(t *testing.T) {
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, fails(always, cutOff)))
	const calls = 250
	for i := range calls {
		s.call(request(fmt.Sprint("toolu_", i), "refund"))
	}
	foreign := request("of another tenant", "refund")
	s.Execute(t.Context(), "acme", foreign)
	for _, size := range []int32{1, 7, 100, 250, 1000} {
		ids, pages := listed(t, s.operator(), size)
		if len(ids) != calls || pages != max(1, (calls+int(size)-1)/int(size)) {
			t.Errorf("pages of %d: %d calls on %d pages", size, len(ids), pages)
		}
		for id, n := range ids {
			if n != 1 {
				t.Errorf("pages of %d: %s is listed %d times", size, id, n)
			}
		}
	}
}

// pagedStore lists what it is told to, a page of the store at a time, and may
// cut its pages differently the next time.
type pagedStore struct {
	dedupe.Store

	pages map[string]dedupe.Page
	asked int
}

func (s *pagedStore) ListUnknown(_ context.Context, from string) (dedupe.Page, error) {
	s.asked++
	page, ok := s.pages[from]
	if !ok {
		return dedupe.Page{}, dedupe.ErrInvalid
	}
	page.Calls = append([]dedupe.Listed(nil), page.Calls...)
	return page, nil
}

// unknowns are the calls named by the letters of a word.
func unknowns(word string) []dedupe.Listed {
	var calls []dedupe.Listed
	for _, letter := range word {
		calls = append(calls, dedupe.Listed{Key: dedupe.Key{ID: string(letter)}, Record: dedupe.Record{State: dedupe.Unknown, Tool: "refund"}})
	}
	return calls
}

func TestAListingFollowsTheStore(t *testing.T) {
	store := &pagedStore{Store: memory.New(memory.Options{}), pages: map[string]dedupe.Page{
		"":  {Calls: unknowns("cab"), Next: "1"},
		"1": {Next: "2"},
		"2": {Calls: unknowns("ed"), Next: "3"},
		"3": {},
	}}
	s := newSidecarOn(t, store)
	for size := range int32(7) {
		if ids, _ := listed(t, s.operator(), size+1); len(ids) != 5 {
			t.Errorf("pages of %d: %v", size+1, ids)
		}
	}
	// The store cuts its first page differently before the second is asked for:
	// rather twice than not at all.
	o := s.operator()
	first, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	store.pages[""] = dedupe.Page{Calls: unknowns("cabAB"), Next: "2"}
	second, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: 100, PageToken: first.GetNextPageToken()})
	if err != nil || len(second.GetExecutions()) != 7 {
		t.Errorf("%v, %v: want all calls of the page that has changed", second, err)
	}
	// Few unknown calls among many others: a page ends with its work.
	many := map[string]dedupe.Page{}
	for i := range 100 {
		many[strings.Repeat("x", i)] = dedupe.Page{Next: strings.Repeat("x", i+1)}
	}
	store.pages, store.asked = many, 0
	page, err := o.ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || store.asked != maxStorePages || page.GetNextPageToken() == "" || len(page.GetExecutions()) != 0 {
		t.Errorf("%d pages of the store for one: %v, %v", store.asked, page, err)
	}
}

// Long errors end a page early, so that it can be received.
func TestAPageOfLongErrorsIsShort(t *testing.T) {
	s, _ := lost(t)
	record, err := s.store.Lookup(t.Context(), dedupe.Key{Conversation: "c1", Turn: "t1", ID: "toolu_1"})
	if err != nil {
		t.Fatal(err)
	}
	long := &response{Error: &sidecallv1.ToolError{Received: strings.Repeat("x", 100<<10)}}
	if record.Result, err = proto.Marshal(long); err != nil {
		t.Fatal(err)
	}
	var calls []dedupe.Listed
	for i := range 40 {
		calls = append(calls, dedupe.Listed{Key: dedupe.Key{ID: fmt.Sprint(i)}, Record: record})
	}
	s = newSidecarOn(t, &pagedStore{Store: memory.New(memory.Options{}), pages: map[string]dedupe.Page{"": {Calls: calls}}})
	ids, pages := listed(t, s.operator(), 1000)
	if len(ids) != 40 || pages != 4 {
		t.Errorf("%d calls on %d pages, want 40 on 4", len(ids), pages)
	}
}
