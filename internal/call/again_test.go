package call_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// hangingStore answers nothing before the caller gives up.
type hangingStore struct{ brokenStore }

func (hangingStore) Admit(ctx context.Context, _ dedupe.Request) (dedupe.Admission, error) {
	<-ctx.Done()
	return dedupe.Admission{}, ctx.Err()
}

// A store that does not answer hides what happened under an id before. Who is
// told "nothing was done, call again" pays a second time under a new id.
func TestWhatTheStoreHidesMayHaveHappened(t *testing.T) {
	for name, test := range map[string]struct {
		store    dedupe.Store
		deadline time.Duration
		code     tool.Code
	}{
		"down":  {brokenStore{}, time.Minute, tool.CodeStoreUnavailable},
		"hangs": {hangingStore{}, 20 * time.Millisecond, tool.CodeTimeout},
	} {
		soon := func(r *catalog.Route) { r.Tool.Policy.Deadline = test.deadline }
		for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed, tool.Idempotent} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				s := calltest.NewOn(t, test.store, calltest.NewRoute(t, "refund", effect, calltest.Answers("paid"), soon))
				res := s.Call(calltest.Request("toolu_1", "refund"))
				if calltest.Code(res) != test.code || res.GetRecovery().GetAttempts() != 0 {
					t.Fatalf("got %v", res)
				}
				warnsOfAnotherID(t, res.GetError().GetHint(), effect == tool.NonIdempotent || effect == tool.Keyed)
			})
		}
	}
}

func TestACallCancelledWithoutTheStoreMayHaveHappenedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("paid")))
	res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_1", "refund")))
	if calltest.Code(res) != tool.CodeCancelled {
		t.Fatalf("got %v", res)
	}
	warnsOfAnotherID(t, res.GetError().GetHint(), true)
}

// The key that protects a keyed call belongs to its id: under another id it
// happens a second time.
func TestAKeyedCallIsNotToBeStartedAnew(t *testing.T) {
	refused := tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted}
	for name, test := range map[string]struct {
		effect tool.Effect
		do     func(n int) tool.Failure
		warned bool
	}{
		"may have run":                    {tool.Keyed, func(int) tool.Failure { return calltest.CutOff }, true},
		"may have run, then not sent":     {tool.Keyed, first(calltest.CutOff, calltest.Refused), true},
		"not sent, then may have run":     {tool.Keyed, first(calltest.Refused, calltest.CutOff), true},
		"never sent":                      {tool.Keyed, func(int) tool.Failure { return refused }, false},
		"may have run, harmless":          {tool.Idempotent, func(int) tool.Failure { return calltest.CutOff }, false},
		"never sent, not to be repeated":  {tool.NonIdempotent, func(int) tool.Failure { return refused }, false},
		"may have run, answered for good": {tool.Keyed, first(calltest.CutOff, calltest.NotFound), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				n++
				failure := test.do(n)
				return tool.Reply{}, &failure
			}}
			s := calltest.New(t, calltest.NewRoute(t, "refund", test.effect, b))
			hint := s.Call(calltest.Request("toolu_1", "refund")).GetError().GetHint()
			warnsOfAnotherID(t, hint, test.warned)
			if test.effect != tool.Keyed || !test.warned {
				return
			}
			// The next request finds a record that says not run.
			b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				return tool.Reply{}, &refused
			}
			warnsOfAnotherID(t, s.Call(calltest.Request("toolu_1", "refund")).GetError().GetHint(), true)
		})
	}
}

// A firm answer to a later attempt says nothing of an earlier one.
func TestAFirmAnswerDoesNotHideAnEarlierAttempt(t *testing.T) {
	const earlier = "earlier attempt"
	for name, test := range map[string]struct {
		effect tool.Effect
		do     func(n int) tool.Failure
		want   bool
	}{
		"deleted, then gone":      {tool.Idempotent, first(calltest.CutOff, calltest.NotFound), true},
		"charged, then not found": {tool.Keyed, first(calltest.CutOff, calltest.NotFound), true},
		"read, then gone":         {tool.ReadOnly, first(calltest.CutOff, calltest.NotFound), false},
		"gone":                    {tool.Idempotent, func(int) tool.Failure { return calltest.NotFound }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &calltest.Backend{}
			b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				failure := test.do(int(b.Calls.Load()))
				return tool.Reply{}, &failure
			}
			s := calltest.New(t, calltest.NewRoute(t, "act", test.effect, b))
			res := s.Call(calltest.Request("toolu_1", "act"))
			if hint := res.GetError().GetHint(); calltest.Code(res) != tool.CodeNotFound || strings.Contains(hint, earlier) != test.want {
				t.Errorf("%s, hint %q", calltest.Code(res), hint)
			}
		})
	}
}

// An upstream that honours keys answers 409 while it works on the first request
// with a key. The call has not failed then; it is not over.
func TestAKeyThatIsInUseIsNoFinalConflict(t *testing.T) {
	conflict := tool.Failure{Code: tool.CodeConflict, Evidence: tool.Definite, Status: http.StatusConflict, Message: "a request with this key is in progress"}
	b := &calltest.Backend{}
	busy := int32(calltest.Always)
	b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		switch n := b.Calls.Load(); {
		case n == 1:
			return tool.Reply{}, &calltest.CutOff
		case n <= busy:
			return tool.Reply{}, &conflict
		default:
			return tool.Reply{Text: []byte("charged")}, nil
		}
	}
	s := calltest.New(t, calltest.NewRoute(t, "charge", tool.Keyed, b))
	res := s.Call(calltest.Request("toolu_1", "charge"))
	if calltest.Code(res) != tool.CodeTimeout || !res.GetRecovery().GetRetryable() || b.Calls.Load() < 2 {
		t.Fatalf("after %d attempts: %v", b.Calls.Load(), res)
	}
	warnsOfAnotherID(t, res.GetError().GetHint(), true)
	// The same id again, at another time: still at work, then done.
	if res := s.Call(calltest.Request("toolu_1", "charge")); calltest.Code(res) != tool.CodeTimeout {
		t.Errorf("still at work: %v", res)
	}
	busy = b.Calls.Load()
	if res := s.Call(calltest.Request("toolu_1", "charge")); res.GetContent() != "charged" {
		t.Errorf("done: %v", res)
	}
	// Where nothing went before, a conflict is a conflict.
	fresh := calltest.New(t, calltest.NewRoute(t, "charge", tool.Keyed, calltest.Fails(calltest.Always, conflict)))
	if res := fresh.Call(calltest.Request("toolu_2", "charge")); calltest.Code(res) != tool.CodeConflict || !res.GetRecorded() {
		t.Errorf("a plain conflict: %v", res)
	}
}

// Other conflicts are final, whatever went before: a status that says no such
// thing, and what the tool's own rules make of a 409.
func TestAConflictThatIsFinal(t *testing.T) {
	program, err := interpret.Compile(interpret.Config{Errors: []interpret.Rule{
		{When: "status == 409", Code: tool.CodeConflict, Hint: "The order has been shipped.", AllowedAlternatives: []string{"return_order"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		status  int
		program *interpret.Program
	}{
		"precondition failed": {http.StatusPreconditionFailed, nil},
		"a rule":              {http.StatusConflict, program},
	} {
		conflict := tool.Failure{Code: tool.CodeConflict, Evidence: tool.Definite, Status: c.status}
		b := &calltest.Backend{}
		b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			failure := first(calltest.CutOff, conflict)(int(b.Calls.Load()))
			return tool.Reply{Status: failure.Status}, &failure
		}
		s := calltest.New(t, calltest.NewRoute(t, "charge", tool.Keyed, b, func(r *catalog.Route) { r.Program = c.program }))
		res := s.Call(calltest.Request("toolu_1", "charge"))
		if calltest.Code(res) != tool.CodeConflict || !res.GetRecorded() {
			t.Errorf("%s: %v", name, res)
		}
		if c.program != nil && !strings.Contains(res.GetError().GetHint(), "shipped") {
			t.Errorf("%s: the rule's hint is lost: %v", name, res)
		}
	}
}

func first(one, then tool.Failure) func(n int) tool.Failure {
	return func(n int) tool.Failure {
		if n == 1 {
			return one
		}
		return then
	}
}

func warnsOfAnotherID(t *testing.T, hint string, want bool) {
	t.Helper()
	if strings.Contains(hint, anotherID) != want || want && !strings.Contains(hint, "same id") {
		t.Errorf("warned of another id should be %v: %q", want, hint)
	}
	if want && strings.Contains(hint, "Nothing was done") || want && strings.Contains(hint, "Nothing was sent. ") {
		t.Errorf("that is not known: %q", hint)
	}
}
