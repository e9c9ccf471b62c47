package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// corrupting is a store in which one record cannot be read.
type corrupting struct {
	dedupe.Store
	key tool.CallID
	why error
}

// errOther is of a record that another version has written.
var errOther = fmt.Errorf("record sidecall:{103}//c/1/call_0: %w", dedupe.ErrLayout)

var errRotten = &dedupe.Corrupt{Name: "sidecall:{103}//c/1/call_0", Why: fmt.Errorf("%w: a record is state(9)", dedupe.ErrCorrupt)}

func (c corrupting) bad(key tool.CallID) error {
	if key == c.key {
		return c.why
	}
	return nil
}

func (c corrupting) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if err := c.bad(req.Key); err != nil {
		return dedupe.Admission{}, err
	}
	return c.Store.Admit(ctx, req)
}

func (c corrupting) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if err := c.bad(s.Key); err != nil {
		return 0, err
	}
	return c.Store.Settle(ctx, s)
}

func (c corrupting) Renew(ctx context.Context, renewal dedupe.Renewal) (dedupe.Record, bool, error) {
	if err := c.bad(renewal.Key); err != nil {
		return dedupe.Record{}, false, err
	}
	return c.Store.Renew(ctx, renewal)
}

func (c corrupting) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	if err := c.bad(n.Key); err != nil {
		return dedupe.Known{}, err
	}
	return c.Store.Note(ctx, n)
}

func (c corrupting) ListOpen(context.Context, string) (dedupe.Page, error) {
	return dedupe.Page{Calls: []dedupe.Listed{{Key: c.key, Err: c.why}, {Err: c.why}}}, nil
}

// A record that cannot be read is an answer: it is told at once, to an operator
// too, and stands in the way of no other call.
func TestACorruptRecord(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		w.Store = corrupting{w.Store, call.Key, errRotten}
		began := time.Now()
		a, claim, err := here.Join(call.Key).Admit(t.Context(), call)
		if !dedupe.IsCorrupt(err) || !errors.Is(err, dedupe.ErrCorrupt) || claim != nil {
			t.Errorf("%v, %v", a, err)
		}
		if _, err := here.Known(t.Context(), dedupe.Note{Key: call.Key}); !dedupe.IsCorrupt(err) {
			t.Errorf("looked up: %v", err)
		}
		if page, err := here.ListOpen(t.Context(), ""); err != nil || len(page.Calls) != 1 || page.Calls[0].Key != call.Key {
			t.Errorf("listed: %+v, %v", page, err)
		}
		here.says(t, "ERROR", "a record is corrupt", 4)
		here.says(t, "ERROR", "sidecall:{103}//c/1/call_0", 4)
		if got := here.Corrupt(); got != 4 {
			t.Errorf("counted %d", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute) // nothing was claimed, and nothing is given back
		if got := w.settles.Load(); got != 0 {
			t.Errorf("%d settlements", got)
		}
		other := call
		other.Key.ID = "call_1"
		settle(t, win(t, here.Dedupe, other), dedupe.Done, "ok")
	})
}

// A record may rot under a running call. What became of that stands in the log,
// and neither the journal nor the store is asked for ever.
func TestARecordThatRotsUnderARunningCall(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		w.Store = corrupting{w.Store, call.Key, errRotten}
		w.down.Store(false) // after which the renewal sees it
		time.Sleep(time.Minute)
		if got := w.renews.Load(); got != 1 || claim.Held() {
			t.Errorf("renewed %d times, held %v", got, claim.Held())
		}
		expect(within(time.Second), t, here.Dedupe, call, dedupe.InFlight) // where it runs, they wait for it
		began := time.Now()
		if v, err := claim.Settle(t.Context(), done("paid")); !dedupe.IsCorrupt(err) || v == dedupe.Journaled {
			t.Errorf("%v, %v", v, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		here.says(t, "ERROR", "settlement lost", 1)
		if got := here.Late(); got != (dedupe.LateState{Lost: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// The same while its settlement waits in the journal.
func TestARecordThatRotsWhileItsSettlementWaits(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		settleLate(t, w, win(t, here.Dedupe, call), done("paid"))
		w.Store = corrupting{w.Store, call.Key, errRotten}
		w.down.Store(false)
		time.Sleep(10 * time.Second)
		here.says(t, "ERROR", "settlement lost", 1)
		if got := here.Late(); got != (dedupe.LateState{Lost: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// A record of another layout is not corrupt, and no claim: there is nothing to count and
// nothing to give back.
func TestARecordOfAnotherLayout(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		w.Store = corrupting{w.Store, call.Key, errOther}
		a, claim, err := here.Join(call.Key).Admit(t.Context(), call)
		if !errors.Is(err, dedupe.ErrLayout) || claim != nil {
			t.Errorf("%v, %v", a, err)
		}
		if page, err := here.ListOpen(t.Context(), ""); err != nil || len(page.Calls) != 1 || !errors.Is(page.Calls[0].Err, dedupe.ErrLayout) {
			t.Errorf("listed: %+v, %v", page, err)
		}
		time.Sleep(time.Minute)
		if got := w.settles.Load(); got != 0 || here.Corrupt() != 0 {
			t.Errorf("%d settlements, %d records counted as corrupt", got, here.Corrupt())
		}
	})
}

// Another version has decided a call that this one runs. What became of it waits for
// whoever can tell that version.
func TestARecordThatAnotherVersionWritesUnderARunningCall(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, _ *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		plain := w.Store
		w.Store = corrupting{plain, call.Key, errOther}
		began := time.Now()
		if v, err := claim.Settle(t.Context(), done("paid")); err != nil || v != dedupe.Journaled {
			t.Errorf("%v, %v", v, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
		if got := here.Late(); got.Waiting != 1 || got.Lost != 0 {
			t.Errorf("%+v", got)
		}
		here.end()
		w.Store = plain
		here.begin() // the other version
		stored(t, w, call, dedupe.Done, "paid")
	})
}
