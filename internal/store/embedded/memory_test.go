package embedded

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// A store in memory lets go of the memory of what has expired while it is used.
func TestMemoryOfWhatHasExpiredIsFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := InMemory(Options{})
		inUse := func() (n int) {
			for _, segment := range s.file.medium.(*ram).segments {
				if segment != nil {
					n++
				}
			}
			return n
		}
		const large = 100
		for i := range large {
			claim(t, s, request(fmt.Sprint(i), tool.NonIdempotent))
			end := settlement(fmt.Sprint(i), "ok")
			end.Retention, end.Result = time.Hour, make([]byte, segmentSize)
			settle(t, s, end)
		}
		if n := inUse(); n < large {
			t.Errorf("%d segments are in use, for %d results of the size of one", n, large)
		}
		time.Sleep(2 * time.Hour)
		for i := range 2 * large {
			finished(t, s, fmt.Sprint("small ", i), "ok")
		}
		if n := inUse(); n > slack/segmentSize+2 {
			t.Errorf("%d segments are in use when all but some small records have expired", n)
		}
	})
}

// Of what has expired the index keeps nothing either: a map that has lost its rows would have
// the memory of all that were ever in it at once.
func TestTheIndexOfWhatHasExpiredIsFreed(t *testing.T) {
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	synctest.Test(t, func(t *testing.T) {
		s := InMemory(Options{})
		before := inUse()
		for i := range 30_000 {
			claim(t, s, about(fmt.Sprint(i)))
		}
		full := inUse() - before
		time.Sleep(365 * 24 * time.Hour)
		for i := range 1000 {
			finished(t, s, fmt.Sprint("later ", i), "ok")
		}
		if left := inUse() - before; left > full/4 {
			t.Errorf("%d KiB are in use for 1,000 records when 30,000 have expired, which had %d KiB", left>>10, full>>10)
		}
		runtime.KeepAlive(s)
	})
}

// What comes after Close is refused, as by a store with a file.
func TestAStoreInMemoryIsClosed(t *testing.T) {
	t.Parallel()
	s := InMemory(Options{})
	finished(t, s, "x", "ok")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), request("x", tool.NonIdempotent)); !errors.Is(err, dedupe.ErrClosed) {
		t.Errorf("a claim: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, dedupe.ErrClosed) {
		t.Errorf("a ping: %v", err)
	}
}
