package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// gate is a writer that can be held.
type gate struct {
	open   chan struct{}
	mu     sync.Mutex
	got    bytes.Buffer
	writes int
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	return g.got.Write(p)
}

func TestEveryLineIsWrittenWholeAndInOrder(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	l := NewLines(g)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				if _, err := fmt.Fprintf(l, "writer %d line %d\n", w, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := map[int]int{}
	for line := range strings.Lines(g.got.String()) {
		var w, i int
		if _, err := fmt.Sscanf(line, "writer %d line %d\n", &w, &i); err != nil || next[w] != i {
			t.Fatalf("%q: %v, want line %d", line, err, next[w])
		}
		next[w]++
	}
	for w := range 8 {
		if next[w] != 500 {
			t.Errorf("writer %d: %d lines", w, next[w])
		}
	}
}

func TestLinesGoOutTogetherWhileTheReaderIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		l := NewLines(g)
		for range 100 {
			if _, err := l.Write([]byte("a line\n")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		close(g.open)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if g.writes > 3 || g.got.Len() != 700 {
			t.Errorf("%d writes, %d bytes", g.writes, g.got.Len())
		}
	})
}

func TestALogThatIsNotReadHoldsTheCallerAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		l := NewLines(g)
		const lines = 40
		line := bytes.Repeat([]byte("x"), 1<<16)
		written := 0
		go func() {
			for range lines {
				if _, err := l.Write(line); err != nil {
					t.Error(err)
				}
				written++
			}
		}()
		synctest.Wait()
		if written == lines {
			t.Error("nothing bounds what waits")
		}
		close(g.open)
		synctest.Wait()
		if err := l.Close(); err != nil || g.got.Len() != lines<<16 {
			t.Errorf("%d bytes, %v", g.got.Len(), err)
		}
	})
}

// A reader that has stopped for good holds nobody for long: not whoever logs, nor the
// end of the process. One that goes on reads how much it has missed.
func TestALogThatNobodyReadsHoldsNobody(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{open: make(chan struct{})}
			l := NewLines(g)
			line := append(bytes.Repeat([]byte("x"), 1<<16-1), '\n')
			lost := 0
			for range 40 {
				if _, err := l.Write(line); err != nil {
					lost++
				}
			}
			if lost == 0 || lost > 30 {
				t.Errorf("%d of 40 lines are lost", lost)
			}
			if goesOn {
				close(g.open)
				synctest.Wait()
				if err := l.Close(); err != nil || !strings.Contains(g.got.String(), fmt.Sprintf(`"lines":%d}`, lost)) || g.got.Len() < (40-lost)<<16 {
					t.Errorf("%d bytes, %v: %q", g.got.Len(), err, g.got.String()[max(0, g.got.Len()-200):])
				}
				return
			}
			for range 2 {
				if err := l.Close(); !errors.Is(err, errUnread) {
					t.Errorf("got %v", err)
				}
			}
			close(g.open) // for the test's own end
		})
	}
}

type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAnErrorOfTheLogIsReported(t *testing.T) {
	l := NewLines(broken{})
	if _, err := l.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := l.Write([]byte("late\n")); !errors.Is(err, errLinesClosed) {
		t.Errorf("after Close: %v", err)
	}
}
