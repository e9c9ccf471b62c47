package conversation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Any byte that is not as it was written is noticed, and so is another place.
func TestAnyByteOfWhatIsStoredCounts(t *testing.T) {
	t.Parallel()
	m := Message{JSON: `{"role":"user"}`, Turn: "t1", Append: Name{1}}
	stored := m.encode(7)
	if got, err := decodeMessage(7, stored); err != nil || got != m {
		t.Fatal(got, err)
	}
	if _, err := decodeMessage(8, stored); !errors.Is(err, ErrCorrupt) {
		t.Errorf("at another place: %v", err)
	}
	h := Head{Version: 3, Provider: "openai", Bytes: 9, StartedAt: time.Unix(1, 0).UTC(), Open: []Call{{ID: "a", Turn: "t", At: 2}}, Prompt: "p"}
	head, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeHead(head); err != nil || !cmp.Equal(got, h) {
		t.Fatal(got, err)
	}
	for i := range stored {
		b := append([]byte(nil), stored...)
		b[i] ^= 1
		if got, err := decodeMessage(7, b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d of a message: %v %v", i, got, err)
		}
		if got, err := decodeMessage(7, stored[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes of a message: %v %v", i, got, err)
		}
	}
	for i := range head {
		b := append([]byte(nil), head...)
		b[i] ^= 1
		if got, err := decodeHead(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d of a head: %v %v", i, got, err)
		}
	}
}
