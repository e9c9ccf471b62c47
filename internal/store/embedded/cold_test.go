package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// cold is a medium of which no row can be read until the disk goes on; its heads are in memory.
type cold struct {
	medium

	begun, goesOn chan struct{}
	once          sync.Once
}

func (c *cold) ReadAt(b []byte, at int64) (int, error) {
	if len(b) > headBytes {
		c.once.Do(func() { close(c.begun) })
		<-c.goesOn
	}
	return c.medium.ReadAt(b, at)
}

// freeze lets the disk answer no read until it is told to go on.
func (s *Store) freeze() *cold {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &cold{medium: s.file.medium, begun: make(chan struct{}), goesOn: make(chan struct{})}
	s.file.medium = c
	return c
}

// gives waits for an answer that says that there is no time.
func gives(t *testing.T, who string, answer <-chan error, want error) {
	t.Helper()
	select {
	case err := <-answer:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	case <-time.After(answerTime):
		t.Errorf("%s is not answered", who)
	}
}

// A disk that does not answer a read holds nobody for longer than he waits: not who reads, and not who
// comes after who commits, who waits for who reads.
func TestAReadThatHangsHoldsNobody(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	claim(t, s, request("old", tool.NonIdempotent))
	disk := s.freeze()
	waits, giveUp := context.WithCancel(t.Context())
	read, admitted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := storetest.Lookup(waits, s, request("old", tool.NonIdempotent).Key)
		read <- err
	}()
	<-disk.begun
	go s.pass()
	harness.WaitFor(t, "who commits to wait", func() bool {
		waits := !s.mu.TryRLock()
		if !waits {
			s.mu.RUnlock()
		}
		return waits
	})
	brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	go func() {
		_, err := s.Admit(brief, request("new", tool.NonIdempotent))
		admitted <- err
	}()
	gives(t, "another call", admitted, context.DeadlineExceeded)
	giveUp()
	gives(t, "who reads", read, context.Canceled)
	close(disk.goesOn)
	claim(t, s, request("new", tool.NonIdempotent)) // the store has not failed
	lookup(t, s, "old")
}
