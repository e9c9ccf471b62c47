package dedupe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/tenured"
)

// line is a wire that carries bids too, and can forget the tenure. What is cut off
// behind a line of its own is as good as stopped.
type line struct {
	wire

	bids   atomic.Int32
	forget atomic.Bool
	anew   dedupe.Tenures // what it has kept since
	// deaf: the answer to the bid that finds the tenure forgotten is not heard.
	deaf bool
}

func (l *line) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
	if err := l.pass(ctx, &l.bids); err != nil {
		return before, after, err
	}
	forgets := l.forget.Swap(false)
	if forgets {
		l.anew = tenured.New()
	}
	tenures := l.Store.(dedupe.Tenures)
	if l.anew != nil {
		tenures = l.anew
	}
	before, after, err = tenures.Bid(ctx, bid)
	if forgets && l.deaf {
		return dedupe.Tenure{}, dedupe.Tenure{}, errDown
	}
	return before, after, l.answer(err)
}

// succession is a store on which processes follow each other as one instance.
type succession struct {
	*testing.T
	store *tenured.Store
}

func successions(t *testing.T, f func(t *testing.T, s *succession)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(t, &succession{T: t, store: tenured.New()})
		synctest.Wait()
	})
}

// incarnation is one of them.
type incarnation struct {
	*dedupe.Dedupe
	line *line
}

// hour is a lease that nobody could wait for.
const hour = time.Hour

// begin begins a process, which is ended at the end of the test; gone says that
// its predecessor provably runs no more.
func (s *succession) begin(name string, gone bool) *incarnation {
	s.Helper()
	i := &incarnation{line: &line{wire: wire{Store: open{s.store}}}}
	i.Dedupe = dedupe.New(i.line, dedupe.Options{
		Incarnation: name, Instance: "shop", Lease: hour, Who: dedupe.Who{Host: name, PID: 7},
		Gone: func(dedupe.Who) bool { return gone },
	})
	s.Cleanup(func() { _ = i.Close(context.Background()) }) // what is asked after Close is its own test
	return i
}

// open is a store that others go on with when one of them closes it.
type open struct{ *tenured.Store }

func (open) Close() error { return nil }

// alone waits until a process is the only one, and returns how long that took.
func (s *succession) alone(i *incarnation) time.Duration {
	s.Helper()
	began := time.Now()
	if err := i.Alone(s.Context()); err != nil {
		s.Fatal(err)
	}
	return time.Since(began)
}

// dies: nothing more comes of the process, and nothing that it claimed is settled.
func (i *incarnation) dies() { i.line.down.Store(true) }

func TestTheNextIncarnationDecidesAtOnce(t *testing.T) {
	for name, effect := range map[string]tool.Effect{"once": tool.NonIdempotent, "keyed": tool.Keyed} {
		t.Run(name, func(t *testing.T) {
			successions(t, func(t *testing.T, s *succession) {
				first := s.begin("first", false)
				s.alone(first)
				win(t, first.Dedupe, refund(effect))
				first.dies()
				second := s.begin("second", true)
				if took := s.alone(second); took != 0 {
					t.Errorf("a predecessor that is provably gone was waited for: %v", took)
				}
				if record, err := second.Lookup(t.Context(), refund(effect).Key); err != nil || record.State == dedupe.Claimed {
					t.Errorf("before anybody asks for it, the call is %v, %v", record.State, err)
				}
				if effect == tool.NonIdempotent {
					expect(t.Context(), t, second.Dedupe, refund(effect), dedupe.OutcomeUnknown)
					return
				}
				claim := win(t, second.Dedupe, refund(effect))
				if claim.Record().Epoch != 2 {
					t.Errorf("epoch %d", claim.Record().Epoch)
				}
				settle(t, claim, dedupe.Done, "ok")
			})
		})
	}
}

// Another instance has to wait for the lease, and an earlier incarnation for the
// one after it.
func TestOnlyTheNextIncarnationDecides(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		win(t, here, refund(tool.Keyed))
		other := dedupe.New(w, dedupe.Options{Incarnation: "another"})
		defer func() { _ = other.Close(context.Background()) }()
		expect(within(time.Second), t, other, refund(tool.Keyed), dedupe.InFlight)
	})
}

func TestAPredecessorThatMayLiveIsWaitedFor(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		first := s.begin("first", false)
		s.alone(first)
		time.Sleep(time.Minute)
		first.dies()
		second := s.begin("second", false)
		if took := s.alone(second); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("waited %v for a tenure of 5 s", took)
		}
	})
}

func TestTwoOfOneNameAreToldApart(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		first := s.begin("first", false)
		s.alone(first)
		claim := win(t, first.Dedupe, refund(tool.NonIdempotent))
		second := s.begin("second", false)
		rival, ok := errors.AsType[*dedupe.RivalError](second.Alone(t.Context()))
		if !ok || rival.Other.Host != "first" || rival.Other.PID != 7 || rival.Instance != "shop" {
			t.Fatalf("the second is told %v", rival)
		}
		other := refund(tool.NonIdempotent)
		other.Key.ID = "another"
		if _, _, err := storetest.Admit(t.Context(), second.Dedupe, other); !errors.Is(err, dedupe.ErrUnconfirmed) {
			t.Errorf("a claim of the second: %v", err)
		}
		time.Sleep(time.Minute)
		if !claim.Held() {
			t.Error("the first does not hold its claim any more")
		}
		settle(t, claim, dedupe.Done, "ok")
		// It can still be asked what is known.
		expect(t.Context(), t, second.Dedupe, refund(tool.NonIdempotent), dedupe.Replay)
	})
}

// Two that start at the same instant: one of them does.
func TestTwoStartsAtOnce(t *testing.T) {
	for name, gone := range map[string]bool{"their predecessor may live": false, "one knows that it is gone": true} {
		t.Run(name, func(t *testing.T) {
			successions(t, func(t *testing.T, s *succession) {
				before := s.begin("before", false)
				s.alone(before)
				before.dies()
				processes := []*incarnation{s.begin("a", gone), s.begin("b", false), s.begin("c", false)}
				refused := 0
				for _, p := range processes {
					if err := p.Alone(t.Context()); err != nil {
						refused++
					}
				}
				if refused != len(processes)-1 {
					t.Errorf("%d of %d were refused", refused, len(processes))
				}
			})
		})
	}
}

// A process that was stopped, and goes on after another has succeeded it, finds
// that out by itself, and nothing of it reaches the store any more.
func TestAStoppedPredecessorDoesNothing(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		first := s.begin("first", false)
		s.alone(first)
		claim := win(t, first.Dedupe, refund(tool.NonIdempotent))
		first.line.down.Store(true)
		time.Sleep(4 * time.Second)
		if !claim.Held() {
			t.Error("not held within its tenure")
		}
		time.Sleep(2 * time.Second)
		if claim.Held() {
			t.Error("held after its tenure, though its lease runs")
		}
		second := s.begin("second", false)
		s.alone(second)
		expect(t.Context(), t, second.Dedupe, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)

		admits, settles, renews := first.line.admits.Load(), first.line.settles.Load(), first.line.renews.Load()
		first.line.down.Store(false)
		if claim.Held() {
			t.Error("held as soon as it goes on")
		}
		if v, err := claim.Settle(within(time.Second), dedupe.Settlement{State: dedupe.Done, Result: []byte("late")}); err == nil {
			t.Errorf("its settlement is %v", v)
		}
		rival, ok := errors.AsType[*dedupe.RivalError](<-first.Ousted())
		if !ok || rival.Other.Host != "second" {
			t.Errorf("it ends because of %v", rival)
		}
		other := refund(tool.NonIdempotent)
		other.Key.ID = "another"
		if a, _, err := storetest.Admit(t.Context(), first.Dedupe, other); !errors.Is(err, dedupe.ErrUnconfirmed) {
			t.Errorf("a claim of it: %v, %v", a.Verdict, err)
		}
		time.Sleep(2 * hour) // beyond every renewal
		if first.line.admits.Load() != admits || first.line.settles.Load() != settles || first.line.renews.Load() != renews {
			t.Error("something of it reached the store")
		}
		expect(t.Context(), t, second.Dedupe, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
	})
}

// A store that is away takes the tenure for a while, and nobody else's is there:
// what was claimed goes on when it is back, and what ended meanwhile is settled.
func TestATenureThatLapsesAndGoesOn(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		p := s.begin("only", false)
		s.alone(p)
		claim := win(t, p.Dedupe, refund(tool.NonIdempotent))
		p.line.down.Store(true)
		time.Sleep(time.Minute)
		if err := p.Ping(t.Context()); claim.Held() || err == nil {
			t.Errorf("while its store is away: held %v, ready: %v", claim.Held(), err)
		}
		p.line.down.Store(false)
		time.Sleep(time.Second)
		if err := p.Ping(t.Context()); !claim.Held() || err != nil {
			t.Errorf("when its store is back: held %v, %v", claim.Held(), err)
		}
		settle(t, claim, dedupe.Done, "ok")
	})
}

// The answer may have been a long time on its way, in which another could succeed.
func TestATenureCountsFromTheRequest(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		p := s.begin("only", false)
		s.alone(p)
		claim := win(t, p.Dedupe, refund(tool.NonIdempotent))
		p.line.latency.Store(int64(2 * time.Second))
		time.Sleep(4 * time.Second) // a renewal was answered
		p.line.down.Store(true)
		for held := 0; claim.Held(); held++ {
			if held > 25 {
				t.Fatal("held for longer than a tenure after its last renewal was sent, which took 2 s of it")
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// A store that has forgotten the tenure may have forgotten another's too.
func TestATenureThatIsForgotten(t *testing.T) {
	for name, deaf := range map[string]bool{"heard": false, "the answer that would say so is lost": true} {
		t.Run(name, func(t *testing.T) { forgetsATenure(t, deaf) })
	}
}

func forgetsATenure(t *testing.T, deaf bool) {
	t.Helper()
	successions(t, func(t *testing.T, s *succession) {
		p := s.begin("only", false)
		s.alone(p)
		time.Sleep(time.Minute + time.Second/2) // at the instant of no renewal
		claim := win(t, p.Dedupe, refund(tool.NonIdempotent))
		p.line.deaf = deaf
		p.line.forget.Store(true)
		time.Sleep(2 * time.Second)
		if claim.Held() {
			t.Error("what was claimed before is held, though another may have had it meanwhile")
		}
		later := refund(tool.NonIdempotent)
		later.Key.ID = "later"
		if !win(t, p.Dedupe, later).Held() {
			t.Error("what is claimed after it is not held")
		}
		time.Sleep(hour / 2)
		if !claim.Held() {
			t.Error("not held though it was renewed since")
		}
	})
}

func TestAStartWithoutItsStore(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		known := s.begin("before", false)
		s.alone(known)
		settle(t, win(t, known.Dedupe, refund(tool.NonIdempotent)), dedupe.Done, "ok")
		if err := known.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		i := &incarnation{line: &line{wire: wire{Store: open{s.store}}}}
		i.dies()
		i.Dedupe = dedupe.New(i.line, dedupe.Options{Instance: "shop"})
		defer func() { _ = i.Close(context.Background()) }()
		if took := s.alone(i); took != 0 {
			t.Errorf("waited %v for a store that is away", took)
		}
		other := refund(tool.NonIdempotent)
		other.Key.ID = "another"
		if _, _, err := storetest.Admit(t.Context(), i.Dedupe, other); err == nil {
			t.Error("claimed without a store")
		}
		i.line.down.Store(false)
		time.Sleep(time.Second)
		claim := win(t, i.Dedupe, other)
		if !claim.Held() {
			t.Error("not held")
		}
		settle(t, claim, dedupe.Done, "ok")
		expect(t.Context(), t, i.Dedupe, refund(tool.NonIdempotent), dedupe.Replay)
	})
}

// Who ends well is succeeded at once; who leaves a call at work is waited for.
func TestWhoResignsIsNotWaitedFor(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		first := s.begin("first", false)
		s.alone(first)
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := s.begin("second", false)
		if took := s.alone(second); took != 0 {
			t.Errorf("waited %v", took)
		}
		win(t, second.Dedupe, refund(tool.NonIdempotent))
		if err := second.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := s.begin("third", false)
		if took := s.alone(third); took == 0 {
			t.Error("who may still be sending was not waited for")
		}
		expect(t.Context(), t, third.Dedupe, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
	})
}

// short is a store that hears each request for a claim and answers none, and then for a
// while neither confirms a tenure nor settles: a Cluster that has lost a replica.
type short struct {
	*tenured.Store

	unconfirmed, unsettled atomic.Bool
}

func (s *short) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	_, err := s.Store.Admit(ctx, req)
	return dedupe.Admission{}, errors.Join(errDown, err)
}

func (s *short) Bid(ctx context.Context, bid dedupe.Bid) (before, after dedupe.Tenure, err error) {
	if s.unconfirmed.Load() {
		return before, after, errDown
	}
	return s.Store.Bid(ctx, bid)
}

func (s *short) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if s.unsettled.Load() {
		return 0, errDown
	}
	return s.Store.Settle(ctx, settlement)
}

// A claim of which nobody has heard is given back whether or not the process is known to
// be the only one: that nothing was sent is true of it all the same. Until then the call
// would be taken for running, for a whole lease.
func TestAClaimIsGivenBackWithoutATenure(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		store := &short{Store: s.store}
		p := dedupe.New(store, dedupe.Options{Incarnation: "only", Instance: "shop", Lease: hour})
		s.Cleanup(func() { _ = p.Close(context.Background()) }) // what is asked after Close is its own test
		if err := p.Alone(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.unconfirmed.Store(true)
		store.unsettled.Store(true)
		call := refund(tool.NonIdempotent)
		if _, _, err := storetest.Admit(t.Context(), p, call); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := p.Ping(t.Context()); !errors.Is(err, dedupe.ErrUnconfirmed) {
			t.Fatalf("it has a tenure: %v", err)
		}
		store.unsettled.Store(false)
		time.Sleep(2 * time.Second)
		if got, err := storetest.Lookup(t.Context(), store, call.Key); err != nil || got.State != dedupe.NotRun {
			t.Errorf("it is %v, %v", got.State, err)
		}
	})
}

// blind is a store that cannot be looked into either while it is down.
type blind struct{ *line }

func (b blind) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	if err := b.pass(ctx, &b.notes); err != nil {
		return dedupe.Known{}, err
	}
	return b.Store.Note(ctx, n)
}

// A process without its tenure asks for no claim, so that it has none to give back.
func TestNothingIsGivenBackThatWasNotAsked(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		l := &line{wire: wire{Store: open{s.store}}}
		d := dedupe.New(blind{l}, dedupe.Options{Instance: "shop", Incarnation: "a"})
		defer func() { _ = d.Close(context.Background()) }()
		if err := d.Alone(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.down.Store(true)
		time.Sleep(time.Minute) // the tenure is over
		if _, _, err := storetest.Admit(t.Context(), d, refund(tool.NonIdempotent)); !errors.Is(err, errDown) {
			t.Error(err)
		}
		l.down.Store(false)
		time.Sleep(time.Minute) // more than a lease
		if admits, settles := l.admits.Load(), l.settles.Load(); admits+settles != 0 {
			t.Errorf("%d requests for a claim, %d given back", admits, settles)
		}
	})
}

// What a process was cut off with is undecided to the next incarnation of its instance, whose lease it need
// not wait for: who lists what is open finds it, and can resolve it.
func TestTheNextIncarnationResolves(t *testing.T) {
	successions(t, func(t *testing.T, s *succession) {
		first := s.begin("first", false)
		s.alone(first)
		cut, read := refund(tool.NonIdempotent), refund(tool.ReadOnly)
		read.Key.ID = "read"
		win(t, first.Dedupe, cut)
		win(t, first.Dedupe, read)
		lists := func(i *incarnation) []dedupe.Listed {
			page, err := i.ListOpen(t.Context(), "")
			if err != nil || page.Next != "" {
				t.Fatal(page.Next, err)
			}
			return page.Calls
		}
		if open := lists(first); len(open) != 0 {
			t.Errorf("what is at work is listed as open: %+v", open)
		}
		first.dies()
		second := s.begin("second", true)
		s.alone(second)
		open := lists(second)
		if len(open) != 1 || open[0].Key != cut.Key || open[0].Record.State != dedupe.Unknown {
			t.Fatalf("the next one lists %+v", open)
		}
		if v, err := second.Resolve(t.Context(), open[0], dedupe.Done, []byte("it happened")); err != nil || v != dedupe.Settled {
			t.Errorf("its resolution is %v, %v", v, err)
		}
		if r, err := second.Lookup(t.Context(), cut.Key); err != nil || r.State != dedupe.Done || string(r.Result) != "it happened" {
			t.Errorf("then it is %v %q, %v", r.State, r.Result, err)
		}
	})
}
