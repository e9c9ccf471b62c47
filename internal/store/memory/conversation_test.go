package memory_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/memory"
)

// An append costs what is appended, and not what is there already.
func TestAnAppendCostsWhatIsAppended(t *testing.T) {
	s := memory.New(memory.Options{})
	const messages = 20_000
	key := conversation.Key{Tenant: "acme", ID: "c"}
	var was []byte
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range messages {
		head := binary.BigEndian.AppendUint64(nil, uint64(i)+1)
		if written, err := s.WriteConversation(t.Context(), conversation.Write{Key: key, Was: was, Head: head, After: int64(i), Messages: [][]byte{head}, TTL: time.Hour}); err != nil || !written {
			t.Fatal(written, err)
		}
		was = head
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / messages; took > 1000 {
		t.Errorf("an append of 8 bytes took %d", took)
	}
}

// What was read stays as it was, whatever is appended.
func TestAPageStaysAsItWasRead(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	key := conversation.Key{Tenant: "acme", ID: "c"}
	write := func(n int, was string) {
		t.Helper()
		w := conversation.Write{Key: key, Was: []byte(was), Head: fmt.Append(nil, n), After: int64(n), Messages: [][]byte{fmt.Append(nil, n)}, TTL: time.Hour}
		if written, err := s.WriteConversation(t.Context(), w); err != nil || !written {
			t.Fatal(written, err)
		}
	}
	write(0, "")
	for n := 1; n < 20; n++ {
		page, err := s.ReadConversation(t.Context(), key, 0, 1000)
		if err != nil || len(page.Messages) != n {
			t.Fatal(len(page.Messages), err)
		}
		page.Messages = append(page.Messages, []byte("of the reader"))
		write(n, fmt.Sprint(n-1))
		if page, err = s.ReadConversation(t.Context(), key, int64(n), 1000); err != nil || len(page.Messages) != 1 || string(page.Messages[0]) != fmt.Sprint(n) {
			t.Fatalf("%q, %v", page.Messages, err)
		}
	}
}
