package embedded

import (
	"bytes"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// What is written comes back, and any other bytes are an error, no panic.
func FuzzFrame(f *testing.F) {
	f.Add(int64(1), byte('r'), []byte("key"), []byte("value"), int64(3), 40, []byte{1})
	f.Add(int64(1<<60), byte(0), []byte{}, []byte{}, int64(-1), -1, []byte("noise"))
	f.Fuzz(func(t *testing.T, at int64, kind byte, key, value []byte, expires int64, where int, noise []byte) {
		if len(key) > 1<<15 {
			return // refused before it gets here
		}
		stored := appendFrame(nil, at, kind, expires, key, value)
		got, err := parseFrame(at, stored)
		if err != nil || got.kind != kind || got.expires != expires || !bytes.Equal(got.key, key) || !bytes.Equal(got.value, value) || got.place != (place{at, uint32(len(stored))}) {
			t.Errorf("%q %d %q %q came back as %+v, %v", kind, expires, key, value, got, err)
		}
		if _, err := parseFrame(at+1, stored); err == nil {
			t.Error("it passes for the frame of another place")
		}
		for i := range noise {
			damaged := bytes.Clone(stored)
			damaged[(uint(where)+uint(i))%uint(len(damaged))] ^= noise[i]
			if _, err := parseFrame(at, damaged); err == nil && !bytes.Equal(damaged, stored) {
				t.Errorf("damage at %d went unnoticed", where+i)
			}
		}
		if len(noise) >= frameHead {
			if f, err := parseFrame(at, noise); err == nil {
				t.Errorf("noise is %+v", f)
			}
		}
	})
}

func TestKeysAreDistinctAndOfAConversationNeighbours(t *testing.T) {
	t.Parallel()
	keys := []tool.CallID{
		{ID: "a"},
		{Turn: "a", ID: ""},
		{Conversation: "c", ID: "a"},
		{Conversation: "c", ID: "b"},
		{Conversation: "c\x00", ID: "a"},
		{Conversation: "c\x00\x01", ID: "a"},
		{Conversation: "ca", ID: "a"},
		{Tenant: "c", ID: "a"},
	}
	seen := map[string]tool.CallID{}
	for _, k := range keys {
		encoded := string(encodeKey(k))
		if other, known := seen[encoded]; known {
			t.Errorf("%+v and %+v are the same", k, other)
		}
		seen[encoded] = k
	}
	prefix := keyOf("", "c", "")
	for encoded, k := range seen {
		if bytes.HasPrefix([]byte(encoded), prefix) != (k.Tenant == "" && k.Conversation == "c") {
			t.Errorf("%+v is on the wrong side", k)
		}
	}
}
