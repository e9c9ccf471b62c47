package backend_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/sidecall/sidecall/internal/backend"
)

// allowance is a room of so many bytes.
type allowance int64

func (a *allowance) Take(n int64) bool {
	if int64(*a) < n {
		return false
	}
	*a -= allowance(n)
	return true
}

// An endless body is read as far as there is room, and then cut.
func TestABodyIsReadAsFarAsThereIsRoom(t *testing.T) {
	for _, declared := range []int64{-1, 1 << 40} {
		room := allowance(100 << 10)
		text, cut, err := backend.ReadAll(endless{}, declared, 10<<20, &room)
		if err != nil || !cut || len(text) > 116<<10 || len(text) < 32<<10 || cap(text) > 128<<10 {
			t.Errorf("declared %d: %d bytes, cut %v, %v", declared, len(text), cut, err)
		}
	}
	none := allowance(0)
	whole := bytes.Repeat([]byte("x"), backend.Uncounted)
	if text, cut, err := backend.ReadAll(bytes.NewReader(whole), -1, 10<<20, &none); err != nil || cut || len(text) != len(whole) {
		t.Errorf("a small one: %d bytes, cut %v, %v", len(text), cut, err)
	}
	if text, cut, err := backend.ReadAll(bytes.NewReader(append(whole, 'x')), int64(len(whole))+1, 10<<20, &none); err != nil || !cut || len(text) != len(whole) {
		t.Errorf("one byte more: %d bytes, cut %v, %v", len(text), cut, err)
	}
}

func TestABodyIsReadUntilItBreaks(t *testing.T) {
	none, large := allowance(0), allowance(10<<20)
	for size, room := range map[int]*allowance{10: &none, backend.Uncounted: &none, 100 << 10: &large} {
		broken := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(syscall.ECONNRESET))
		text, cut, err := backend.ReadAll(broken, -1, 1<<20, room)
		if len(text) != size || cut || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d bytes: %d, cut %v, %v", size, len(text), cut, err)
		}
	}
	if text, cut, err := backend.ReadAll(endless{}, 1<<40, 1000, nil); len(text) != 1000 || !cut || err != nil {
		t.Errorf("to its limit: %d bytes, cut %v, %v", len(text), cut, err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
