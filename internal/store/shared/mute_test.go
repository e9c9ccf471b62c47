package shared

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// besideAMute is a guest of a holder that stands still, as a process that was stopped does.
func besideAMute(t *testing.T) *Store {
	t.Helper()
	path := filepath.Join(harness.ShortDir(t), "s")
	listener, err := net.Listen("unix", path+socketSuffix)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), listener.Close()); err != nil {
			t.Error(err)
		}
	})
	s.patience = 10 * time.Millisecond
	return s
}

// Holds reports that this process is the holder.
func (s *Store) Holds() bool {
	at := s.at.Load()
	return at != nil && at.holder != nil
}

// A file that another sidecar has, which lets nobody in, is named, with what to do.
func TestAFileThatASidecarHas(t *testing.T) {
	t.Parallel()
	path := filepath.Join(harness.ShortDir(t), "s")
	alone, err := embedded.Open(path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*lookAgain)
	defer cancel()
	_, err = Open(ctx, path, embedded.Options{})
	if !errors.Is(err, embedded.ErrInUse) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "stop that") {
		t.Error(err)
	}
}

// A holder that stands still holds nobody's call for long.
func TestAMuteHolder(t *testing.T) {
	t.Parallel()
	s := besideAMute(t)
	if _, err := storetest.Lookup(context.Background(), s, tool.CallID{ID: "x"}); !errors.Is(err, errMute) || !strings.Contains(err.Error(), s.path) {
		t.Error(err)
	}
}

// One that reads nothing either holds up no request that it has no room for, and no end.
func TestAHolderThatReadsNothing(t *testing.T) {
	t.Parallel()
	s := besideAMute(t)
	large := dedupe.Settlement{Key: tool.CallID{ID: "x"}, Output: &dedupe.Output{Ref: "out", Data: make([]byte, 4<<20)}}
	if _, err := s.Settle(context.Background(), large); !errors.Is(err, errMute) {
		t.Error(err)
	}
	if _, err := storetest.Lookup(context.Background(), s, tool.CallID{ID: "x"}); !errors.Is(err, errMute) {
		t.Error(err)
	}
}

// stuck is a store that stands still, until it is closed.
type stuck struct {
	dedupe.Store
	held   atomic.Int64 // requests that it has
	closed chan struct{}
}

func (s *stuck) Settle(ctx context.Context, _ dedupe.Settlement) (dedupe.SettleVerdict, error) {
	s.held.Add(1)
	defer s.held.Add(-1)
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-s.closed:
		return 0, dedupe.ErrClosed
	}
}

func (s *stuck) Close() error {
	close(s.closed)
	return s.Store.Close()
}

// besideAStuck is a guest of a holder whose store stands still.
func besideAStuck(t *testing.T, patience time.Duration) (store *stuck, h *holder, guest *Store) {
	t.Helper()
	path := filepath.Join(harness.ShortDir(t), "s")
	store = &stuck{Store: embedded.InMemory(embedded.Options{}), closed: make(chan struct{})}
	h, err := hold(store, path+socketSuffix)
	if err != nil {
		t.Fatal(err)
	}
	guest, err = Open(t.Context(), path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	guest.patience = patience
	t.Cleanup(func() {
		if err := guest.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, h, guest
}

func TestAHolderForgetsWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	store, h, guest := besideAStuck(t, 10*time.Millisecond)
	for range 20 {
		if _, err := guest.Settle(context.Background(), dedupe.Settlement{Key: tool.CallID{ID: "x"}}); !errors.Is(err, errMute) {
			t.Error(err)
		}
	}
	harness.WaitFor(t, "nothing to be kept of what was given up", func() bool { return store.held.Load() == 0 })
	if err := h.close(); err != nil {
		t.Error(err)
	}
}

func TestAHolderEndsWhileItsStoreStandsStill(t *testing.T) {
	t.Parallel()
	store, h, guest := besideAStuck(t, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan error)
	go func() {
		_, err := guest.Settle(ctx, dedupe.Settlement{Key: tool.CallID{ID: "x"}})
		given <- err
	}()
	harness.WaitFor(t, "the store to have a request", func() bool { return store.held.Load() == 1 })
	var ended atomic.Bool
	go func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
		ended.Store(true)
	}()
	harness.WaitFor(t, "the holder to end", ended.Load)
	cancel()
	<-given
}

// leaving is the store of a holder that ends once it has made a claim, and tells nobody of it.
type leaving struct {
	dedupe.Store
	holder *holder
	closed chan struct{}
	ended  chan error
}

func (l *leaving) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	a, err := l.Store.Admit(ctx, req)
	go func() { l.ended <- l.holder.close() }()
	<-l.closed // its guests have been sent away
	return a, err
}

func (l *leaving) Close() error {
	defer close(l.closed)
	return l.Store.Close()
}

// A claim of which its owner did not hear, since the holder has ended, is nobody's doubt: nothing
// was sent under it.
func TestAClaimThatAHolderHasTakenWithIt(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Idempotent} {
		path := filepath.Join(harness.ShortDir(t), "s")
		file, err := embedded.Open(path, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := &leaving{Store: file, closed: make(chan struct{}), ended: make(chan error, 1)}
		if store.holder, err = hold(store, path+socketSuffix); err != nil {
			t.Fatal(err)
		}
		guest, err := Open(t.Context(), path, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := dedupe.New(guest, dedupe.Options{Receipts: true})
		answer, claim, err := storetest.Admit(t.Context(), d, dedupe.Request{
			Key: tool.CallID{Conversation: "c", ID: "pay"}, Tool: "pay", Effect: effect,
			Draw: dedupe.Draw{Counter: "n", MaxCalls: 1}, EffectKey: dedupe.EffectKey{Print: [32]byte{1}, Window: time.Minute},
		})
		if err != nil || answer.Verdict != dedupe.Won {
			t.Errorf("%v: %v, %v", effect, answer.Verdict, err)
		} else if verdict, err := claim.Settle(t.Context(), dedupe.Settlement{State: dedupe.Done, Result: []byte("paid")}); err != nil || verdict != dedupe.Settled {
			t.Errorf("%v: %v, %v", effect, verdict, err)
		}
		if tally, err := d.Tally(t.Context(), "", "c", "n"); err != nil || tally.Calls != 1 {
			t.Errorf("%v: it counts %d times, %v", effect, tally.Calls, err)
		}
		if err := errors.Join(<-store.ended, d.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}
