package call_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// countingStore counts what is asked of a store, and can fail to look records up.
type countingStore struct {
	dedupe.Store
	admits, settles, lookups atomic.Int32
	lookupFails              bool
	// admitted, when set, is called after the nth admission.
	admitted func(n int32)
}

func newCountingStore() *countingStore {
	return &countingStore{Store: embedded.InMemory(embedded.Options{})}
}

func (s *countingStore) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	n := s.admits.Add(1)
	admission, err := s.Store.Admit(ctx, req)
	if s.admitted != nil {
		s.admitted(n)
	}
	return admission, err
}

func (s *countingStore) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	s.settles.Add(1)
	return s.Store.Settle(ctx, settlement)
}

func (s *countingStore) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	s.lookups.Add(1)
	if s.lookupFails {
		return dedupe.Known{}, errors.New("not now")
	}
	return s.Store.Note(ctx, n)
}

// filled is a bulkhead without a free place.
func filled() (b *limit.Bulkhead, leave func()) {
	b = limit.NewBulkhead(1)
	var place limit.Place
	b.Acquire(&place)
	return b, place.Leave
}

func withSlots(slots *limit.Bulkhead) func(*catalog.Route) {
	return func(r *catalog.Route) { r.Slots = slots }
}

// anotherID is what a model that may have paid must be warned of.
const anotherID = "under another id"

func isOverloaded(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	if calltest.Code(res) != tool.CodeOverloaded || !strings.Contains(res.GetError().GetHint(), "Nothing was sent") ||
		res.GetRecovery().GetAttempts() != 0 || res.GetRecovery().GetRetryAfter().AsDuration() <= 0 {
		t.Errorf("got %v, want OVERLOADED, nothing sent, a time to wait", res)
	}
}

func TestACallWithoutRoomCostsTheStoreOneLook(t *testing.T) {
	full, leave := filled()
	for name, test := range map[string]struct {
		effect  tool.Effect
		change  func(*catalog.Route)
		sidecar *limit.Bulkhead
	}{
		"the backend, a reader":    {effect: tool.ReadOnly, change: withSlots(full)},
		"the backend, idempotent":  {effect: tool.Idempotent, change: withSlots(full)},
		"the backend, a payment":   {effect: tool.NonIdempotent, change: withSlots(full)},
		"the backend, keyed":       {effect: tool.Keyed, change: withSlots(full)},
		"the tool":                 {effect: tool.ReadOnly, change: func(r *catalog.Route) { r.ToolSlots = full }},
		"the sidecar, a payment":   {effect: tool.NonIdempotent, change: func(*catalog.Route) {}, sidecar: full},
		"the sidecar, only a look": {effect: tool.ReadOnly, change: func(*catalog.Route) {}, sidecar: full},
	} {
		t.Run(name, func(t *testing.T) {
			b, store := calltest.Answers("ok"), newCountingStore()
			s := calltest.NewOn(t, store, calltest.NewRoute(t, "act", test.effect, b, test.change))
			if test.sidecar != nil {
				s.Slots = test.sidecar
			}
			isOverloaded(t, s.Call(calltest.Request("toolu_1", "act")))
			if n := store.admits.Load() + store.settles.Load() + b.Calls.Load(); n != 0 || store.lookups.Load() != 1 {
				t.Errorf("%d admissions, settlements and calls, %d looks, want none and one", n, store.lookups.Load())
			}
		})
	}
	leave()
	if full.InFlight() != 0 {
		t.Errorf("%d places are still taken", full.InFlight())
	}
}

// A model that is told "nothing was sent, call again" starts a payment anew,
// under a new id. It may only be told so when nothing happened under the old.
func TestACallWithoutRoomIsNotLiedTo(t *testing.T) {
	slots := limit.NewBulkhead(1)
	pay, store := calltest.Answers("paid"), newCountingStore()
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "pay", tool.NonIdempotent, pay, withSlots(slots)))
	s.Call(calltest.Request("toolu_done", "pay"))
	var place limit.Place
	slots.Acquire(&place)

	if again := s.Call(calltest.Request("toolu_done", "pay")); !again.GetReplayed() || again.GetContent() != "paid" {
		t.Errorf("the backend is full, and a payment that was made is %s", again.GetContent())
	}
	changed := calltest.Request("toolu_done", "pay")
	changed.ArgumentsJson = `{"order_id":"A-2"}`
	if res := s.Call(changed); calltest.Code(res) != tool.CodeIDReused {
		t.Errorf("other arguments under the same id: %s", res.GetContent())
	}
	fresh := s.Call(calltest.Request("toolu_new", "pay"))
	isOverloaded(t, fresh)
	if hint := fresh.GetError().GetHint(); strings.Contains(hint, anotherID) || !strings.Contains(hint, "Nothing was sent. ") {
		t.Errorf("nothing was done under this id, and the hint is %q", hint)
	}
	store.lookupFails = true
	unseen := s.Call(calltest.Request("toolu_done", "pay"))
	isOverloaded(t, unseen)
	if hint := unseen.GetError().GetHint(); !strings.Contains(hint, anotherID) || !strings.Contains(hint, "same id") {
		t.Errorf("the record could not be seen, and the hint is %q", hint)
	}
	store.lookupFails = false
	place.Leave()
	var leave func()
	s.Slots, leave = filled()
	if again := s.Call(calltest.Request("toolu_done", "pay")); !again.GetReplayed() {
		t.Errorf("the sidecar is full, and a payment that was made is %s", again.GetContent())
	}
	leave()
	if again := s.Call(calltest.Request("toolu_done", "pay")); !again.GetReplayed() || pay.Calls.Load() != 1 {
		t.Errorf("with room again: %s, %d payments", again.GetContent(), pay.Calls.Load())
	}
}

// A keyed call that is recorded as not run may have run all the same.
func TestARecordOfAKeyedCallProvesLittle(t *testing.T) {
	slots := limit.NewBulkhead(1)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Keyed, calltest.Fails(calltest.Always, calltest.CutOff), withSlots(slots)))
	s.Call(calltest.Request("toolu_1", "refund"))
	slots.Acquire(&limit.Place{})
	res := s.Call(calltest.Request("toolu_1", "refund"))
	isOverloaded(t, res)
	if hint := res.GetError().GetHint(); !strings.Contains(hint, anotherID) {
		t.Errorf("hint %q", hint)
	}
}

func TestLooksAreFewAtATime(t *testing.T) {
	full, _ := filled()
	store := newCountingStore()
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid"), withSlots(full)))
	s.Looks, _ = filled()
	isOverloaded(t, s.Call(calltest.Request("toolu_1", "pay")))
	if n := store.lookups.Load(); n != 0 {
		t.Errorf("%d looks", n)
	}
}

func TestOnlyALookAtArgumentsNeedsNoRoomAtTheBackend(t *testing.T) {
	full, _ := filled()
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.ReadOnly, calltest.Answers("ok"), withSlots(full)))
	req := calltest.Request("toolu_1", "act")
	req.ValidateOnly = true
	if res := s.Call(req); res.GetIsError() {
		t.Errorf("%s", res.GetContent())
	}
}

// slowBackend answers when it is told to.
func slowBackend() (b *calltest.Backend, open chan struct{}) {
	open = make(chan struct{})
	b = &calltest.Backend{Do: func(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		if in.Tool != "slow" {
			return tool.Reply{Text: []byte("ok")}, nil
		}
		select {
		case <-open:
			return tool.Reply{Text: []byte("done")}, nil
		case <-ctx.Done():
			return tool.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous, Err: ctx.Err()}
		}
	}}
	return b, open
}

// The duplicates of one slow call wait. They must not keep anybody out, neither
// at the backend nor in the sidecar.
func TestDuplicatesThatWaitTakeNobodysPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const duplicates = 50
		b, open := slowBackend()
		slots := limit.NewBulkhead(2)
		s := calltest.New(t, calltest.NewRoute(t, "slow", tool.NonIdempotent, b, withSlots(slots)), calltest.NewRoute(t, "quick", tool.NonIdempotent, b, withSlots(slots)))
		s.Slots = limit.NewBulkhead(3)
		s.Waiting = limit.NewBulkhead(duplicates)
		results := make(chan *sidecallv1.ExecuteToolResponse, 1+duplicates)
		for range 1 + duplicates {
			go func() { results <- s.Call(calltest.Request("toolu_1", "slow")) }()
			synctest.Wait() // one after the other
		}
		if slots.InFlight() != 1 || s.Slots.InFlight() != 1 || s.Waiting.InFlight() != duplicates {
			t.Errorf("%d places at the backend, %d in the sidecar, %d waiting, want 1, 1, %d",
				slots.InFlight(), s.Slots.InFlight(), s.Waiting.InFlight(), duplicates)
		}
		if res := s.Call(calltest.Request("toolu_2", "quick")); res.GetIsError() {
			t.Errorf("kept out by duplicates: %s", res.GetContent())
		}
		if res := s.Call(calltest.Request("toolu_1", "slow")); calltest.Code(res) != tool.CodeInProgress {
			t.Errorf("one duplicate more than may wait: %s", res.GetContent())
		}
		close(open)
		for range 1 + duplicates {
			if res := <-results; res.GetContent() != "done" {
				t.Errorf("%s", res.GetContent())
			}
		}
		synctest.Wait()
		if slots.InFlight()+s.Slots.InFlight()+s.Waiting.InFlight() != 0 {
			t.Error("places are still taken")
		}
	})
}

// A duplicate of a running call finds neither the sidecar nor the backend full:
// it needs no place at either of them.
func TestADuplicateWaitsWhereEverythingIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, open := slowBackend()
		slots := limit.NewBulkhead(1)
		s := calltest.New(t, calltest.NewRoute(t, "slow", tool.ReadOnly, b, withSlots(slots)))
		s.Slots, s.Waiting = limit.NewBulkhead(1), limit.NewBulkhead(10)
		results := make(chan *sidecallv1.ExecuteToolResponse, 2)
		for range 2 {
			go func() { results <- s.Call(calltest.Request("toolu_1", "slow")) }()
			synctest.Wait()
		}
		isOverloaded(t, s.Call(calltest.Request("toolu_2", "slow")))
		close(open)
		for range 2 {
			if res := <-results; res.GetContent() != "done" {
				t.Errorf("%s", res.GetContent())
			}
		}
	})
}

// When the first call turns out not to have run, the one that waited for it runs,
// if there is room for it by then; if there is none, its record says that
// nothing was done.
func TestADuplicateThatMustRunAfterAllNeedsRoom(t *testing.T) {
	for name, room := range map[string]bool{"room": true, "no room": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runAfterAll(t, room) })
		})
	}
}

func runAfterAll(t *testing.T, room bool) {
	t.Helper()
	slots, store, open := limit.NewBulkhead(1), newCountingStore(), make(chan struct{})
	b := &calltest.Backend{}
	b.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		if b.Calls.Load() > 1 {
			return tool.Reply{Text: []byte("ok")}, nil
		}
		<-open
		return tool.Reply{}, &tool.Failure{Code: tool.CodeRateLimited, Evidence: tool.NotExecuted, RetryAfter: time.Hour}
	}
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "pay", tool.NonIdempotent, b, withSlots(slots)))
	s.Waiting = limit.NewBulkhead(10)
	store.admitted = func(n int32) {
		if n == 2 && !room { // somebody else takes the place meanwhile
			slots.Acquire(&limit.Place{})
		}
	}
	var results [2]chan *sidecallv1.ExecuteToolResponse
	for i := range results {
		results[i] = make(chan *sidecallv1.ExecuteToolResponse, 1)
		go func() { results[i] <- s.Call(calltest.Request("toolu_1", "pay")) }()
		synctest.Wait()
	}
	close(open)
	if res := <-results[0]; calltest.Code(res) != tool.CodeRateLimited {
		t.Errorf("the first: %s", res.GetContent())
	}
	second := <-results[1]
	if room && second.GetContent() != "ok" {
		t.Errorf("with room: %s", second.GetContent())
	}
	if !room {
		isOverloaded(t, second)
		if got := s.State("toolu_1"); got != dedupe.NotRun || b.Calls.Load() != 1 {
			t.Errorf("without room: %v after %d calls", got, b.Calls.Load())
		}
	}
}

// A breaker that opens between two attempts of a call keeps the second one back.
// The first has been sent all the same, and CIRCUIT_OPEN means that nothing was.
func TestAGuardThatStopsARetryDoesNotHideTheAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		effect  tool.Effect
		failure tool.Failure
		code    tool.Code
	}{
		"ambiguous": {tool.Keyed, calltest.CutOff, tool.CodeDependencyUnavailable},
		"timed out": {tool.ReadOnly, calltest.TimedOut, tool.CodeTimeout},
		"not run":   {tool.NonIdempotent, calltest.Refused, tool.CodeDependencyUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := calltest.Fails(calltest.Always, test.failure)
			s := calltest.New(t, calltest.NewRoute(t, "act", test.effect, b, calltest.WithBreaker(1)))
			res := s.Call(calltest.Request("toolu_1", "act"))
			recovery := res.GetRecovery()
			if calltest.Code(res) != test.code || recovery.GetAttempts() != 1 || b.Calls.Load() != 1 || !recovery.GetRetriesExhausted() {
				t.Errorf("got %v after %d calls, want %s after 1", res, b.Calls.Load(), test.code)
			}
			if wait := recovery.GetRetryAfter().AsDuration(); wait < 50*time.Second || wait > time.Minute {
				t.Errorf("retry_after %s, want what is left of the minute for which the breaker is open", wait)
			}
			if got := s.State("toolu_1"); got != dedupe.NotRun {
				t.Errorf("state %v", got)
			}
			if res := s.Call(calltest.Request("toolu_2", "act")); calltest.Code(res) != tool.CodeCircuitOpen || res.GetRecovery().GetAttempts() != 0 {
				t.Errorf("the next call: %v", res)
			}
		})
	}
}
