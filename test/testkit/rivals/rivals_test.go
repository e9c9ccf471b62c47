package rivals

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// bent is a good store that does something wrong every seventh time: seven divides
// no pattern in which claims and replays may follow each other.
type bent struct {
	dedupe.Store

	asked atomic.Int64
	admit func(context.Context, dedupe.Request, dedupe.Admission, error) (dedupe.Admission, error)
}

func (b *bent) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	a, err := b.Store.Admit(ctx, req)
	if b.asked.Add(1)%7 == 0 && b.admit != nil {
		return b.admit(ctx, req, a, err)
	}
	return a, err
}

// The oracle finds no fault with a store that has none, also when that loses
// replies, and finds each kind of fault.
func TestLoadTellsGoodFromBad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		admit func(context.Context, dedupe.Request, dedupe.Admission, error) (dedupe.Admission, error)
		want  string // of a complaint; empty when there must be none
	}{
		"a good store": {},
		"a lost reply": {admit: func(context.Context, dedupe.Request, dedupe.Admission, error) (dedupe.Admission, error) {
			return dedupe.Admission{}, errors.New("connection lost")
		}},
		"a forgotten result": {
			admit: func(_ context.Context, _ dedupe.Request, a dedupe.Admission, err error) (dedupe.Admission, error) {
				a.Verdict, a.Record.Epoch = dedupe.Won, 1
				return a, err
			},
		},
		"another result": {
			admit: func(_ context.Context, _ dedupe.Request, a dedupe.Admission, err error) (dedupe.Admission, error) {
				a.Record.Result = []byte("other")
				return a, err
			}, want: "the result is",
		},
		"another epoch": {
			admit: func(_ context.Context, _ dedupe.Request, a dedupe.Admission, err error) (dedupe.Admission, error) {
				a.Record.Epoch++
				return a, err
			}, want: "at epoch 2",
		},
		"a call that nobody gets": {
			admit: func(_ context.Context, _ dedupe.Request, _ dedupe.Admission, err error) (dedupe.Admission, error) {
				return dedupe.Admission{Verdict: dedupe.OutcomeUnknown}, err
			}, want: "got unknown",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			store := embedded.InMemory(embedded.Options{})
			defer store.Close()
			traffic := Load{Stores: []dedupe.Store{&bent{Store: store, admit: c.admit}}, Workers: 4, Patience: 5 * time.Second}.Start()
			settled := traffic.AwaitSettled(200)
			verdict := traffic.Stop()
			if !settled {
				t.Error("nothing was settled")
			}
			good := name == "a good store" || name == "a lost reply"
			if good != (verdict.Violations == 0) || !strings.Contains(strings.Join(verdict.Complaints, "\n"), c.want) {
				t.Errorf("%d violations of %d calls: %q", verdict.Violations, verdict.Calls, verdict.Complaints)
			}
			if (verdict.Repeats > 0) != (name == "a lost reply") {
				t.Errorf("%d repeats", verdict.Repeats)
			}
		})
	}
}
