package output

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// endless never ends.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

// stuck reads nothing, for ever, without an error.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReadBoundedReadsWhatIsThere(t *testing.T) {
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 100_000, 128 << 10, 600_000} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for name, r := range map[string]io.Reader{
			"at once":            bytes.NewReader(want),
			"by halves":          iotest.HalfReader(bytes.NewReader(want)),
			"end with last data": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			for _, limit := range []int64{int64(size), int64(size) + 1, 1 << 20} {
				if size == 0 && limit == 0 {
					continue
				}
				got, cut, err := ReadBounded(r, limit)
				if err != nil || cut || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes %s, limit %d: %d bytes, cut %v, %v", size, name, limit, len(got), cut, err)
				}
				r = bytes.NewReader(want)
			}
		}
	}
}

func TestReadBoundedStopsAtTheLimit(t *testing.T) {
	for _, limit := range []int64{-1, 0, 1, firstRead, firstRead + 1, 1 << 20} {
		e := &endless{}
		got, cut, err := ReadBounded(e, limit)
		if err != nil || !cut || int64(len(got)) != max(limit, 0) || e.read > max(limit, 0)+1 {
			t.Errorf("limit %d: %d bytes, %d read, cut %v, %v", limit, len(got), e.read, cut, err)
		}
	}
}

func TestReadBoundedCostsNoMoreThanItMayKeep(t *testing.T) {
	const limit = 10 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, cut, err := ReadBounded(&endless{}, limit)
	runtime.ReadMemStats(&after)
	if err != nil || !cut || cap(got) != limit {
		t.Fatalf("%d bytes, cut %v, %v", cap(got), cut, err)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > limit*3/2 {
		t.Errorf("%d bytes were allocated in all", spent)
	}
}

func TestReadBoundedReturnsWhatArrivedBeforeAnError(t *testing.T) {
	broken := errors.New("connection reset")
	got, cut, err := ReadBounded(io.MultiReader(strings.NewReader("half a bo"), iotest.ErrReader(broken)), 1000)
	if !errors.Is(err, broken) || cut || string(got) != "half a bo" {
		t.Errorf("%q, cut %v, %v", got, cut, err)
	}
	got, cut, err = ReadBounded(io.MultiReader(strings.NewReader("full"), iotest.ErrReader(broken)), 4)
	if !errors.Is(err, broken) || cut || string(got) != "full" {
		t.Errorf("at the limit: %q, cut %v, %v", got, cut, err)
	}
	if _, _, err := ReadBounded(stuck{}, 1000); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that does not move: %v", err)
	}
}

func TestReadBoundedResultsDoNotShareMemory(t *testing.T) {
	first, _, _ := ReadBounded(strings.NewReader("first"), 100)
	second, _, _ := ReadBounded(strings.NewReader("second"), 100)
	if string(first) != "first" || string(second) != "second" {
		t.Errorf("%q, %q", first, second)
	}
}
