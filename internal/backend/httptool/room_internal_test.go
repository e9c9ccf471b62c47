package httptool

import (
	"bytes"
	"testing"

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
		text, cut, err := readAll(endless{}, declared, 10<<20, &room)
		if err != nil || !cut || len(text) > 116<<10 || len(text) < 32<<10 || cap(text) > 128<<10 {
			t.Errorf("declared %d: %d bytes, cut %v, %v", declared, len(text), cut, err)
		}
	}
	none := allowance(0)
	whole := bytes.Repeat([]byte("x"), backend.Uncounted)
	if text, cut, err := readAll(bytes.NewReader(whole), -1, 10<<20, &none); err != nil || cut || len(text) != len(whole) {
		t.Errorf("a small one: %d bytes, cut %v, %v", len(text), cut, err)
	}
	if text, cut, err := readAll(bytes.NewReader(append(whole, 'x')), int64(len(whole))+1, 10<<20, &none); err != nil || !cut || len(text) != len(whole) {
		t.Errorf("one byte more: %d bytes, cut %v, %v", len(text), cut, err)
	}
}
