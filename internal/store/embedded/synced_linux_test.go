package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// A loss of power takes what was written and not synced. A process that is
// killed shows nothing of that, for the system keeps what it has written. So
// the disk here takes every write and cannot sync: nothing may be answered then,
// neither a claim nor a settlement nor a renewal, and nothing be read that a
// loss of power would take back.
func TestNothingIsAnsweredThatIsNotSynced(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Store) (any, error){
		"a claim":      func(s *Store) (any, error) { return s.Admit(t.Context(), request("new", tool.NonIdempotent)) },
		"a settlement": func(s *Store) (any, error) { return s.Settle(t.Context(), settlement("open", "paid")) },
		"a renewal": func(s *Store) (any, error) {
			req := request("open", tool.NonIdempotent)
			return storetest.Renew(t.Context(), s, req.Key, req.Owner, 1, req.Lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
			// The file is long enough then: to make it longer syncs too.
			for i := range 50 {
				finished(t, s, fmt.Sprint(i), "ok")
			}
			claim(t, s, request("open", tool.NonIdempotent))
			s.file.sync = func() error { return syscall.EINVAL }
			answer, err := change(s)
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("answered %+v, %v; want the error of the sync", answer, err)
			}
			if found, err := storetest.Lookup(t.Context(), s, request("new", 0).Key); err == nil {
				t.Errorf("it can be read: %v", found.State)
			}
			if err := s.Ping(t.Context()); err == nil || errors.Is(err, dedupe.ErrFull) {
				t.Errorf("the store goes on: %v", err)
			}
		})
	}
}

// A file that was removed can be had from the process that still holds it.
func TestARemovedFileIsSavedFromTheProcess(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "done", "paid")
	claim(t, s, request("at work", tool.NonIdempotent))
	if err := os.Remove(s.file.path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), settlement("at work", "paid")); err == nil {
		t.Error("it is told as stored")
	}
	held, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", s.file.medium.(osFile).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved.db")
	if err := os.WriteFile(saved, held, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, saved, Options{})
	if got := lookup(t, again, "done"); got.State != dedupe.Done {
		t.Errorf("done is %v", got.State)
	}
	if got := lookup(t, again, "at work"); got.State != dedupe.Unknown {
		t.Errorf("at work is %v", got.State)
	}
}
