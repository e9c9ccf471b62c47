package dedupe_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

var errDown = errors.New("connection refused")

// wire is a store behind a bad connection: requests are counted, can fail
// before they arrive (down), or after (deaf), and can be slow.
type wire struct {
	dedupe.Store
	admits, settles, renews, notes atomic.Int32
	down, deaf                     atomic.Bool
	latency                        atomic.Int64 // time.Duration
}

func (w *wire) pass(ctx context.Context, n *atomic.Int32) error {
	n.Add(1)
	time.Sleep(time.Duration(w.latency.Load()))
	if w.down.Load() {
		return errDown
	}
	return ctx.Err()
}

func (w *wire) answer(err error) error {
	if w.deaf.Load() {
		return errDown
	}
	return err
}

func (w *wire) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if err := w.pass(ctx, &w.admits); err != nil {
		return dedupe.Admission{}, err
	}
	a, err := w.Store.Admit(ctx, req)
	return a, w.answer(err)
}

func (w *wire) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if err := w.pass(ctx, &w.settles); err != nil {
		return 0, err
	}
	v, err := w.Store.Settle(ctx, s)
	return v, w.answer(err)
}

func (w *wire) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	if err := w.pass(ctx, &w.notes); err != nil {
		return dedupe.Known{}, err
	}
	noted, err := w.Store.Note(ctx, n)
	return noted, w.answer(err)
}

func (w *wire) Renew(ctx context.Context, renewal dedupe.Renewal) (dedupe.Record, bool, error) {
	if err := w.pass(ctx, &w.renews); err != nil {
		return dedupe.Record{}, false, err
	}
	record, restored, err := w.Store.Renew(ctx, renewal)
	return record, restored, w.answer(err)
}

// bubble runs a test with time of its own, a store, and two processes on it.
func bubble(t *testing.T, f func(t *testing.T, w *wire, here, there *dedupe.Dedupe)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Store: embedded.InMemory(embedded.Options{})}
		here := dedupe.New(w, dedupe.Options{Incarnation: "here"})
		there := dedupe.New(w, dedupe.Options{Incarnation: "there"})
		defer func() {
			w.down.Store(false)
			w.deaf.Store(false)
			if err := errors.Join(here.Close(context.Background()), there.Close(context.Background())); err != nil {
				t.Error(err)
			}
		}()
		f(t, w, here, there)
	})
}

func refund(effect tool.Effect) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Conversation: "c", Turn: "1", ID: "call_0"}, Tool: "refund",
		Effect: effect, Fingerprint: [32]byte{1},
	}
}

func win(t *testing.T, d *dedupe.Dedupe, req dedupe.Request) *dedupe.Claim {
	t.Helper()
	a, claim, err := storetest.Admit(context.Background(), d, req)
	if err != nil || a.Verdict != dedupe.Won || claim == nil {
		t.Fatalf("not won: %v, %v", a.Verdict, err)
	}
	return claim
}

func settle(t *testing.T, claim *dedupe.Claim, state dedupe.State, result string) {
	t.Helper()
	v, err := claim.Settle(context.Background(), dedupe.Settlement{State: state, Attempts: 1, Result: []byte(result)})
	if err != nil || v != dedupe.Settled {
		t.Fatalf("not settled: %v, %v", v, err)
	}
}

// expect admits and fails unless the verdict is the wanted one.
func expect(ctx context.Context, t *testing.T, d *dedupe.Dedupe, req dedupe.Request, want dedupe.Verdict) dedupe.Admission {
	t.Helper()
	a, claim, err := storetest.Admit(ctx, d, req)
	if err != nil || a.Verdict != want || (claim != nil) != (want == dedupe.Won) {
		t.Errorf("got %v (claim %v), %v; want %v", a.Verdict, claim != nil, err, want)
	}
	return a
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func TestTwoRoundTripsPerCallAndOnePerReplay(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		settle(t, win(t, here, refund(tool.NonIdempotent)), dedupe.Done, "ok")
		if got := w.admits.Load() + w.settles.Load() + w.renews.Load(); got != 2 {
			t.Errorf("%d round trips per call", got)
		}
		a := expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.Replay)
		if got := w.admits.Load(); got != 2 || string(a.Record.Result) != "ok" {
			t.Errorf("%d round trips for a replay of %q", got-1, a.Record.Result)
		}
	})
}

func TestDuplicatesHereJoinWithoutRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() {
				a := expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.Replay)
				if string(a.Record.Result) != "ok" || a.Record.Attempts != 1 {
					t.Errorf("replayed %+v", a.Record)
				}
			})
		}
		time.Sleep(time.Second)
		settle(t, claim, dedupe.Done, "ok")
		crowd.Wait()
		if got := w.admits.Load(); got != 1 {
			t.Errorf("%d admissions, want only the first one's", got)
		}
	})
}

func TestDuplicatesArriveTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		w.latency.Store(int64(5 * time.Millisecond))
		var executions atomic.Int32
		var crowd sync.WaitGroup
		for i := range 200 {
			d := here
			if i%2 == 1 {
				d = there
			}
			crowd.Go(func() {
				a, claim, err := storetest.Admit(t.Context(), d, refund(tool.NonIdempotent))
				switch {
				case err != nil:
					t.Error(err)
				case claim != nil:
					executions.Add(1)
					time.Sleep(time.Second)
					settle(t, claim, dedupe.Done, "ok")
				case a.Verdict != dedupe.Replay || string(a.Record.Result) != "ok":
					t.Errorf("got %v of %q", a.Verdict, a.Record.Result)
				}
			})
		}
		crowd.Wait()
		if got := executions.Load(); got != 1 {
			t.Errorf("executed %d times", got)
		}
		if got := w.admits.Load(); got > 10 {
			t.Errorf("%d admissions: the crowd polled", got)
		}
	})
}

// A call that did not run is run by exactly one of those who waited for it, and
// the others go on waiting for that one.
func TestTheNextInLineTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		var executions atomic.Int32
		var crowd sync.WaitGroup
		for range 50 {
			crowd.Go(func() {
				a, next, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent))
				switch {
				case err != nil:
					t.Error(err)
				case next != nil:
					executions.Add(1)
					time.Sleep(time.Second)
					settle(t, next, dedupe.Done, "second")
				case a.Verdict != dedupe.Replay:
					t.Errorf("got %v", a.Verdict)
				}
			})
		}
		synctest.Wait()
		settle(t, claim, dedupe.NotRun, "")
		crowd.Wait()
		if executions.Load() != 1 || w.admits.Load() != 2 {
			t.Errorf("executed %d times with %d admissions", executions.Load(), w.admits.Load())
		}
	})
}

func TestWaitingForAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, there, refund(tool.NonIdempotent))
		before := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			settle(t, claim, dedupe.Done, "ok")
		}()
		var crowd sync.WaitGroup
		for range 20 {
			crowd.Go(func() { expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.Replay) })
		}
		crowd.Wait()
		if late := time.Since(before) - 10*time.Second; late < 0 || late > pollMax {
			t.Errorf("heard of the result %v after it was there", late)
		}
		if got := w.admits.Load(); got < 10 || got > 40 {
			t.Errorf("asked %d times in 10 s, want about one per second after a quick start", got)
		}
	})
}

const pollMax = time.Second

func TestWaitingEndsWithTheCallersDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		claim := win(t, there, refund(tool.NonIdempotent))
		defer settle(t, claim, dedupe.Done, "ok")
		for _, d := range []*dedupe.Dedupe{here, there} {
			before := time.Now()
			expect(within(3*time.Second), t, d, refund(tool.NonIdempotent), dedupe.InFlight)
			if waited := time.Since(before); waited != 3*time.Second {
				t.Errorf("waited %v", waited)
			}
		}
	})
}

// The time is up in the middle of asking: what was known before still holds.
func TestTimeIsUpWhileAsking(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, there, refund(tool.NonIdempotent))
		w.latency.Store(int64(700 * time.Millisecond))
		expect(within(time.Second), t, here, refund(tool.NonIdempotent), dedupe.InFlight)
		w.latency.Store(0)
		settle(t, claim, dedupe.Done, "ok")
	})
}

// The leader of the waiting has a shorter deadline than the others: they go on.
func TestTheLeaderLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		claim := win(t, there, refund(tool.NonIdempotent))
		var crowd sync.WaitGroup
		crowd.Go(func() { expect(within(time.Second), t, here, refund(tool.NonIdempotent), dedupe.InFlight) })
		synctest.Wait()
		for range 10 {
			crowd.Go(func() { expect(within(time.Minute), t, here, refund(tool.NonIdempotent), dedupe.Replay) })
		}
		time.Sleep(5 * time.Second)
		settle(t, claim, dedupe.Done, "ok")
		crowd.Wait()
	})
}

func TestOtherArgumentsDoNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		other := refund(tool.NonIdempotent)
		other.Fingerprint = [32]byte{2}
		before := time.Now()
		for _, d := range []*dedupe.Dedupe{here, there} {
			a := expect(t.Context(), t, d, other, dedupe.Mismatch)
			if a.Record.State != dedupe.Claimed || a.Record.Fingerprint != refund(0).Fingerprint {
				t.Errorf("the record is %+v", a.Record)
			}
		}
		if time.Since(before) != 0 {
			t.Errorf("waited %v", time.Since(before))
		}
		settle(t, claim, dedupe.Done, "ok")
		expect(t.Context(), t, here, other, dedupe.Mismatch)
	})
}

func TestUnknownIsToldToWhoeverWaits(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		var crowd sync.WaitGroup
		for _, d := range []*dedupe.Dedupe{here, there} {
			crowd.Go(func() { expect(t.Context(), t, d, refund(tool.NonIdempotent), dedupe.OutcomeUnknown) })
		}
		synctest.Wait()
		settle(t, claim, dedupe.Unknown, "")
		crowd.Wait()
	})
}

func TestUnknownOfARepeatableCallIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, _ *dedupe.Dedupe) {
		settle(t, win(t, here, refund(tool.Keyed)), dedupe.Unknown, "")
		if got := win(t, here, refund(tool.Keyed)); got.Record().Epoch != 2 {
			t.Errorf("epoch %d, want 2", got.Record().Epoch)
		}
	})
}

func TestWaitingEndsAfterMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dedupe.New(embedded.InMemory(embedded.Options{}), dedupe.Options{})
		claim := win(t, d, refund(tool.NonIdempotent))
		before := time.Now()
		expect(context.Background(), t, d, refund(tool.NonIdempotent), dedupe.InFlight)
		if waited := time.Since(before); waited != 10*time.Minute {
			t.Errorf("waited %v, want 10 minutes", waited)
		}
		settle(t, claim, dedupe.Done, "ok")
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseSendsWaitersAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := embedded.InMemory(embedded.Options{})
		here, there := dedupe.New(store, dedupe.Options{}), dedupe.New(store, dedupe.Options{})
		claim := win(t, here, refund(tool.NonIdempotent))
		var crowd sync.WaitGroup
		for _, d := range []*dedupe.Dedupe{here, there} {
			crowd.Go(func() {
				if _, _, err := storetest.Admit(context.Background(), d, refund(tool.NonIdempotent)); !errors.Is(err, dedupe.ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		for _, d := range []*dedupe.Dedupe{here, there, here} {
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		crowd.Wait()
		if _, err := claim.Settle(context.Background(), dedupe.Settlement{State: dedupe.Done}); !errors.Is(err, dedupe.ErrClosed) {
			t.Errorf("settled after Close: %v", err)
		}
		if _, _, err := storetest.Admit(context.Background(), here, refund(tool.NonIdempotent)); !errors.Is(err, dedupe.ErrClosed) {
			t.Errorf("admitted after Close: %v", err)
		}
	})
}

// BenchmarkAdmitSettle is the price of this layer: a call with its claim, over a
// store in memory, 32 in flight on two processors; bare, and as an agent's call is:
// with a budget, and logs.
func BenchmarkAdmitSettle(b *testing.B) {
	b.Run("bare", func(b *testing.B) { admitSettle(b, func(*dedupe.Request, *dedupe.Settlement) {}) })
	b.Run("agent's", func(b *testing.B) {
		entry := make([]byte, 65)
		admitSettle(b, func(req *dedupe.Request, end *dedupe.Settlement) {
			req.Draw = dedupe.Draw{Counter: "prompt", MaxCalls: 1 << 30, MaxTokens: 1 << 40}
			req.Logs = []string{"calls"}
			end.Appends = []dedupe.Append{{Log: "calls", Entry: entry, Keep: 64}}
			end.Tokens = 100
		})
	})
}

func admitSettle(b *testing.B, as func(*dedupe.Request, *dedupe.Settlement)) {
	d := dedupe.New(embedded.InMemory(embedded.Options{MaxBytes: 16 << 30}), dedupe.Options{Retention: time.Hour})
	result := make([]byte, 600)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, conversation := context.Background(), rand.Text()
		for n := 0; pb.Next(); n++ {
			if n%10 == 0 {
				conversation = rand.Text()
			}
			req, end := refund(tool.NonIdempotent), dedupe.Settlement{State: dedupe.Done, Result: result}
			req.Key.Conversation, req.Key.ID = conversation, rand.Text()
			as(&req, &end)
			_, claim, err := storetest.Admit(ctx, d, req)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := claim.Settle(ctx, end); err != nil {
				b.Error(err)
			}
		}
	})
	if err := d.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
