package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/tool"
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
		soon := func(r *Route) { r.Tool.Policy.Deadline = test.deadline }
		for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed, tool.Idempotent} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				s := newSidecarOn(t, test.store, newRoute(t, "refund", effect, answers("paid"), soon))
				res := s.call(request("toolu_1", "refund"))
				if code(res) != test.code || res.GetRecovery().GetAttempts() != 0 {
					t.Fatalf("got %v", res)
				}
				warnsOfAnotherID(t, res.GetError().GetHint(), mustNotRepeat(effect))
			})
		}
	}
}

func TestACallCancelledWithoutTheStoreMayHaveHappenedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newSidecarOn(t, brokenStore{}, newRoute(t, "refund", tool.NonIdempotent, answers("paid")))
	res := s.Execute(ctx, "", request("toolu_1", "refund"))
	if code(res) != tool.CodeCancelled {
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
		"may have run":                    {tool.Keyed, func(int) tool.Failure { return cutOff }, true},
		"may have run, then not sent":     {tool.Keyed, first(cutOff, refused), true},
		"not sent, then may have run":     {tool.Keyed, first(refused, cutOff), true},
		"never sent":                      {tool.Keyed, func(int) tool.Failure { return refused }, false},
		"may have run, harmless":          {tool.Idempotent, func(int) tool.Failure { return cutOff }, false},
		"never sent, not to be repeated":  {tool.NonIdempotent, func(int) tool.Failure { return refused }, false},
		"may have run, answered for good": {tool.Keyed, first(cutOff, notFound), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
				n++
				failure := test.do(n)
				return backend.Reply{}, &failure
			}}
			s := newSidecar(t, newRoute(t, "refund", test.effect, b))
			hint := s.call(request("toolu_1", "refund")).GetError().GetHint()
			warnsOfAnotherID(t, hint, test.warned)
			if test.effect != tool.Keyed || !test.warned {
				return
			}
			// The next request finds a record that says not run.
			b.do = func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
				return backend.Reply{}, &refused
			}
			warnsOfAnotherID(t, s.call(request("toolu_1", "refund")).GetError().GetHint(), true)
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
		"deleted, then gone":      {tool.Idempotent, first(cutOff, notFound), true},
		"charged, then not found": {tool.Keyed, first(cutOff, notFound), true},
		"read, then gone":         {tool.ReadOnly, first(cutOff, notFound), false},
		"gone":                    {tool.Idempotent, func(int) tool.Failure { return notFound }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &fakeBackend{}
			b.do = func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
				failure := test.do(int(b.calls.Load()))
				return backend.Reply{}, &failure
			}
			s := newSidecar(t, newRoute(t, "act", test.effect, b))
			res := s.call(request("toolu_1", "act"))
			if hint := res.GetError().GetHint(); code(res) != tool.CodeNotFound || strings.Contains(hint, earlier) != test.want {
				t.Errorf("%s, hint %q", code(res), hint)
			}
		})
	}
}

// An upstream that honours keys answers 409 while it works on the first request
// with a key. The call has not failed then; it is not over.
func TestAKeyThatIsInUseIsNoFinalConflict(t *testing.T) {
	conflict := tool.Failure{Code: tool.CodeConflict, Evidence: tool.Definite, Status: http.StatusConflict, Message: "a request with this key is in progress"}
	b := &fakeBackend{}
	busy := int32(always)
	b.do = func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		switch n := b.calls.Load(); {
		case n == 1:
			return backend.Reply{}, &cutOff
		case n <= busy:
			return backend.Reply{}, &conflict
		default:
			return backend.Reply{Text: []byte("charged")}, nil
		}
	}
	s := newSidecar(t, newRoute(t, "charge", tool.Keyed, b))
	res := s.call(request("toolu_1", "charge"))
	if code(res) != tool.CodeTimeout || !res.GetRecovery().GetRetryable() || b.calls.Load() < 2 {
		t.Fatalf("after %d attempts: %v", b.calls.Load(), res)
	}
	warnsOfAnotherID(t, res.GetError().GetHint(), true)
	// The same id again, at another time: still at work, then done.
	if res := s.call(request("toolu_1", "charge")); code(res) != tool.CodeTimeout {
		t.Errorf("still at work: %v", res)
	}
	busy = b.calls.Load()
	if res := s.call(request("toolu_1", "charge")); res.GetContent() != "charged" {
		t.Errorf("done: %v", res)
	}
	// Where nothing went before, a conflict is a conflict.
	fresh := newSidecar(t, newRoute(t, "charge", tool.Keyed, fails(always, conflict)))
	if res := fresh.call(request("toolu_2", "charge")); code(res) != tool.CodeConflict || !res.GetRecorded() {
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
		b := &fakeBackend{}
		b.do = func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
			failure := first(cutOff, conflict)(int(b.calls.Load()))
			return backend.Reply{Status: failure.Status}, &failure
		}
		s := newSidecar(t, newRoute(t, "charge", tool.Keyed, b, func(r *Route) { r.Program = c.program }))
		res := s.call(request("toolu_1", "charge"))
		if code(res) != tool.CodeConflict || !res.GetRecorded() {
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
