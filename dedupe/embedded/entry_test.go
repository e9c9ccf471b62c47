package embedded

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// What is written comes back, and any other bytes are an error, no panic.
func FuzzEntry(f *testing.F) {
	f.Add(uint64(1), []byte("key"), "owner", "tool", int64(3), byte(2), 40, []byte{1})
	f.Add(uint64(1), []byte("key"), "owner", "tool", int64(3), byte(1), 7, []byte("noise"))
	f.Add(uint64(1<<63), []byte{}, "", "", int64(-1), byte(255), -1, []byte{1})
	f.Fuzz(func(t *testing.T, id uint64, key []byte, owner, name string, n int64, b byte, at int, noise []byte) {
		if len(key) > 1<<15 || len(owner) > dedupe.MaxNameBytes || len(name) > dedupe.MaxNameBytes {
			return // refused before it gets here
		}
		e := entry{
			Stored: dedupe.Stored{
				Record: dedupe.Record{
					State: dedupe.State(b), Epoch: n, Owner: owner, Tool: name, Effect: tool.Effect(b), Fingerprint: [32]byte{b},
					StartedAt: dedupe.Instant(n / 1e6), LeaseUntil: dedupe.Instant(int64(b)), Attempts: int(b),
				},
				Mark: b%2 == 0, Retention: time.Duration(b) * time.Second,
			},
			id: id, key: append([]byte{}, key...), expires: dedupe.Instant(n / 1e7),
		}
		place, stored := bigEndian(id), encodeEntry(e)
		got, err := decodeEntry(place, stored)
		if impossible := e.Verify(); (err == nil) != (impossible == nil) {
			t.Fatalf("%v, and as it is stored %v", impossible, err)
		}
		if diff := cmp.Diff(e.Stored, got.Stored); err == nil && (diff != "" || got.id != id || !bytes.Equal(got.key, key) || !got.expires.Equal(e.expires)) {
			t.Errorf("%+v came back as %+v", e, got)
		}
		if _, err := decodeEntry(bigEndian(id+1), stored); err == nil {
			t.Error("it passes for the entry of another place")
		}
		for i := range noise {
			damaged := bytes.Clone(stored)
			damaged[(uint(at)+uint(i))%uint(len(damaged))] ^= noise[i]
			if _, err := decodeEntry(place, damaged); err == nil && !bytes.Equal(damaged, stored) {
				t.Errorf("damage at %d went unnoticed", at+i)
			}
		}
		if e, err := decodeEntry(place, noise); err == nil {
			t.Errorf("noise is %+v", e)
		}
	})
}

func TestKeysAreDistinctAndOfAConversationNeighbours(t *testing.T) {
	t.Parallel()
	keys := []dedupe.Key{
		{ID: "a"},
		{Turn: "a", ID: ""},
		{Conversation: "c", ID: "a"},
		{Conversation: "c", ID: "b"},
		{Conversation: "c\x00", ID: "a"},
		{Conversation: "c\x00\x01", ID: "a"},
		{Conversation: "ca", ID: "a"},
		{Tenant: "c", ID: "a"},
	}
	seen := map[string]dedupe.Key{}
	for _, k := range keys {
		encoded := string(encodeKey(k))
		if other, known := seen[encoded]; known {
			t.Errorf("%+v and %+v are the same", k, other)
		}
		seen[encoded] = k
	}
	prefix := appendComponents(nil, "", "c")
	for encoded, k := range seen {
		if bytes.HasPrefix([]byte(encoded), prefix) != (k.Tenant == "" && k.Conversation == "c") {
			t.Errorf("%+v is on the wrong side", k)
		}
	}
}
