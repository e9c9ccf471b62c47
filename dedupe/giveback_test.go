package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// late is a store whose server was stopped: a request fails, and is read all the
// same when the server goes on, after those that came later.
type late struct {
	dedupe.Store
	by time.Duration // 0: in time
}

func (l *late) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if l.by == 0 {
		return l.Store.Admit(ctx, req)
	}
	time.AfterFunc(l.by, func() { _, _ = l.Store.Admit(context.Background(), req) }) // nobody hears what comes of it
	return dedupe.Admission{}, errDown
}

// A request that arrives after its claim was given back makes a claim that
// nobody holds. It is found and given back again, long before its lease ends.
func TestAClaimThatIsMadeAfterItWasGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		store := &late{Store: w, by: 2500 * time.Millisecond}
		here := dedupe.New(store, dedupe.Options{Incarnation: "slow"})
		for _, id := range []string{"call_0", "call_1"} {
			request := refund(tool.NonIdempotent)
			request.Key.ID = id
			if _, claim, err := storetest.Admit(t.Context(), here, request); !errors.Is(err, errDown) || claim != nil {
				t.Fatalf("got %v", err)
			}
			time.Sleep(100 * time.Millisecond) // the second comes while the first is waited for
		}
		time.Sleep(2450 * time.Millisecond)
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.Claimed {
			t.Fatalf("the late request has left %v", got.State)
		}
		time.Sleep(8 * time.Second)
		for _, id := range []string{"call_0", "call_1"} {
			request := refund(tool.NonIdempotent)
			request.Key.ID = id
			next := win(t, there, request)
			if next.Record().Epoch != 2 {
				t.Errorf("%s: epoch %d, want 2", id, next.Record().Epoch)
			}
			settle(t, next, dedupe.Done, "ok")
		}
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// twice is a store to which each request for a claim comes a second time, late,
// and that does not answer it.
type twice struct {
	dedupe.Store
	after time.Duration
}

func (w *twice) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	_, err := w.Store.Admit(ctx, req)
	time.AfterFunc(w.after, func() { _, _ = w.Store.Admit(context.Background(), req) }) // nobody hears what comes of it
	return dedupe.Admission{}, errors.Join(errDown, err)
}

// A claim that was given back is not made once more by a copy of its request:
// nobody would hold it, and a call that never ran would become Unknown.
func TestARequestThatArrivesTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		here := dedupe.New(&twice{Store: w, after: 3 * time.Second}, dedupe.Options{Incarnation: "slow"})
		if _, claim, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent)); !errors.Is(err, errDown) || claim != nil {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Second)
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.NotRun {
			t.Fatalf("the claim was not given back: %v", got.State)
		}
		time.Sleep(3 * time.Second)
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.NotRun || got.Epoch != 1 {
			t.Errorf("the copy has left %v at epoch %d", got.State, got.Epoch)
		}
		settle(t, win(t, there, refund(tool.NonIdempotent)), dedupe.Done, "ok")
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The same when its own call has been refused by the upstream meanwhile.
func TestACopyThatArrivesAfterTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		var copied dedupe.Request
		spy := dedupe.New(&copying{Store: w, copied: &copied}, dedupe.Options{Incarnation: "spied"})
		settle(t, win(t, spy, refund(tool.NonIdempotent)), dedupe.NotRun, "refused")
		if a, err := w.Admit(t.Context(), copied); err != nil || a.Verdict != dedupe.InFlight {
			t.Errorf("the copy is told %v, %v", a.Verdict, err)
		}
		settle(t, win(t, there, refund(tool.NonIdempotent)), dedupe.Done, "ok")
		expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.Replay)
		if err := spy.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// copying remembers the last request for a claim as the store got it.
type copying struct {
	dedupe.Store
	copied *dedupe.Request
}

func (c *copying) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	*c.copied = req
	return c.Store.Admit(ctx, req)
}

// A server that hangs longer than a lease reads then what lies in its buffers: the
// lease of such a claim begins then, and so does the time in which it is found.
func TestAClaimThatIsMadeAfterALongOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		const lease = 30 * time.Second
		here := dedupe.New(&late{Store: w, by: lease + 5*time.Second}, dedupe.Options{Incarnation: "slow", Lease: lease})
		w.down.Store(true)
		if _, claim, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent)); !errors.Is(err, errDown) || claim != nil {
			t.Fatalf("got %v", err)
		}
		time.Sleep(lease + 4500*time.Millisecond)
		w.down.Store(false)
		time.Sleep(501 * time.Millisecond)
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.Claimed {
			t.Fatalf("the late request has left %v", got.State)
		}
		time.Sleep(5 * time.Second)
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.NotRun {
			t.Errorf("it was not given back: %v", got.State)
		}
		settle(t, win(t, there, refund(tool.NonIdempotent)), dedupe.Done, "ok")
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// partly is a store that answers no request for a claim, and no settlement of
// some keys.
type partly struct {
	dedupe.Store
	mu   sync.Mutex
	away map[tool.CallID]bool
	asks int // settlements that failed
}

func (p *partly) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	_, err := p.Store.Admit(ctx, req)
	return dedupe.Admission{}, errors.Join(errDown, err)
}

func (p *partly) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away[s.Key] {
		p.asks++
		return 0, errDown
	}
	return p.Store.Settle(ctx, s)
}

// Claims that cannot be given back, because the server that has them is away, do
// not keep others waiting that can.
func TestClaimsThatCannotBeGivenBackHoldUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, _ *dedupe.Dedupe) {
		store := &partly{Store: w, away: map[tool.CallID]bool{}}
		here := dedupe.New(store, dedupe.Options{Incarnation: "here"})
		ask := func(id string) tool.CallID {
			request := refund(tool.NonIdempotent)
			request.Key.ID = id
			if _, _, err := storetest.Admit(t.Context(), here, request); !errors.Is(err, errDown) {
				t.Fatalf("got %v", err)
			}
			return request.Key
		}
		for n := range 200 {
			key := refund(0).Key
			key.ID = fmt.Sprint("away ", n)
			store.away[key] = true
		}
		for n := range 200 {
			ask(fmt.Sprint("away ", n))
		}
		time.Sleep(10 * time.Second)
		there := ask("there")
		time.Sleep(time.Second)
		if got, _ := storetest.Lookup(t.Context(), w.Store, there); got.State != dedupe.NotRun {
			t.Errorf("it was not given back: %v", got.State)
		}
		store.mu.Lock()
		if store.asks > 600 {
			t.Errorf("the server that is away was asked %d times in 11 s", store.asks)
		}
		clear(store.away)
		store.mu.Unlock()
		time.Sleep(20 * time.Second)
		if got, _ := storetest.Lookup(t.Context(), w.Store, tool.CallID{Conversation: "c", Turn: "1", ID: "away 0"}); got.State != dedupe.NotRun {
			t.Errorf("it was not given back in the end: %v", got.State)
		}
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowly is a store that hears each request for a claim, answers none, and takes a second
// for each settlement: one that waits for replicas that it has lost.
type slowly struct{ dedupe.Store }

func (s slowly) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	_, err := s.Store.Admit(ctx, req)
	return dedupe.Admission{}, errors.Join(errDown, err)
}

func (s slowly) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	time.Sleep(time.Second - time.Millisecond)
	return s.Store.Settle(ctx, settlement)
}

// unheardOf makes so many claims of which nobody hears, and waits.
func unheardOf(t *testing.T, w *wire, claims int, wait time.Duration) {
	t.Helper()
	here := dedupe.New(slowly{w}, dedupe.Options{Incarnation: "here"})
	var keys []tool.CallID
	for n := range claims {
		request := refund(tool.NonIdempotent)
		request.Key.ID = fmt.Sprint("call ", n)
		keys = append(keys, request.Key)
		if _, _, err := storetest.Admit(t.Context(), here, request); !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
	}
	time.Sleep(wait)
	for _, key := range keys {
		if got, _ := storetest.Lookup(t.Context(), w.Store, key); got.State != dedupe.NotRun {
			t.Errorf("%s: %v", key.ID, got.State)
		}
	}
	if err := here.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A hundred and sixty claims of a Cluster that lost a master were given back one after the
// other: most had become Unknown by then, for good, and none had been sent.
func TestManyClaimsAreGivenBackInTheirLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, _ *dedupe.Dedupe) { unheardOf(t, w, 160, 5*time.Second) })
}

// As many as there are calls in flight: none is forgotten, however long it takes.
func TestAllClaimsInFlightAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, _ *dedupe.Dedupe) { unheardOf(t, w, 10_000, 4*time.Minute) })
}

// A claim of which nobody has heard does not stay Unknown when the store was away for
// longer than its lease: its owner sent nothing, and says so.
func TestAClaimThatIsGivenBackAfterItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, there *dedupe.Dedupe) {
		store := &partly{Store: w, away: map[tool.CallID]bool{}}
		here := dedupe.New(store, dedupe.Options{Incarnation: "here"})
		request := refund(tool.NonIdempotent)
		store.away[request.Key] = true
		if _, _, err := storetest.Admit(t.Context(), here, request); !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute)
		if answer, claim, err := storetest.Admit(t.Context(), there, request); err != nil || claim != nil || answer.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("got %v, %v", answer.Verdict, err)
		}
		store.mu.Lock()
		clear(store.away)
		store.mu.Unlock()
		time.Sleep(5 * time.Second)
		settle(t, win(t, there, request), dedupe.Done, "ok")
		if err := here.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
