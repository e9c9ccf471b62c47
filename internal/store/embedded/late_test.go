package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// A disk that stands still for longer than a settlement waits, and then goes on:
// what became of the call is recorded all the same.
func TestADiskThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := dedupe.New(s, dedupe.Options{LateBytes: 1 << 20})
		defer func() {
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		call := request("call", tool.NonIdempotent)
		ticket := d.Join(call.Key)
		defer ticket.Leave()
		admission, claim, err := ticket.Admit(t.Context(), call)
		if err != nil || claim == nil {
			t.Fatalf("%v, %v", admission.Verdict, err)
		}
		goesOn := make(chan struct{})
		sync := s.file.sync
		s.file.sync = func() error {
			<-goesOn
			return sync()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		verdict, err := claim.Settle(ctx, dedupe.Settlement{State: dedupe.Done, Attempts: 1, Result: []byte("paid")})
		if err != nil || verdict != dedupe.Journaled || d.Late().Waiting != 1 {
			t.Fatalf("while it stands still: %v, %v, %+v", verdict, err, d.Late())
		}
		time.Sleep(time.Minute)
		close(goesOn)
		for range 100 {
			if d.Late().Waiting == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if r, err := d.Lookup(t.Context(), call.Key); err != nil || r.State != dedupe.Done || string(r.Result) != "paid" {
			t.Errorf("the call is %v %q, %v", r.State, r.Result, err)
		}
	})
}

// A disk that stands still holds up no end, and the file is let go of when it goes on, not under what is
// being written.
func TestCloseWhileTheDiskStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := dedupe.New(s, dedupe.Options{LateBytes: 1 << 20})
		goesOn := s.standStill(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- d.Close(ctx) }()
		select {
		case err := <-ended:
			if _, failed := errors.AsType[*dedupe.FailedError](err); !failed {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(time.Hour):
			t.Error("it does not end")
		}
		if _, err := openFile(s.file.path, 0); !errors.Is(err, ErrInUse) {
			t.Errorf("the file while something is written to it: %v", err)
		}
		goesOn()
		synctest.Wait()
		again, err := openFile(s.file.path, 0)
		if err != nil {
			t.Fatalf("the file afterwards: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}
