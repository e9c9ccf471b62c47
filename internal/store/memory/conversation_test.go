package memory_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
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

// What conversations take together is bounded; what has expired makes room.
func TestTheMessagesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{MaxConversationBytes: 100})
		write := func(id string, was, head string, after int64, ttl time.Duration) error {
			w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: id}, Was: []byte(was), Head: []byte(head), After: after, Messages: [][]byte{make([]byte, 38)}, TTL: ttl}
			written, err := s.WriteConversation(t.Context(), w)
			if err == nil && !written {
				t.Errorf("%s is not written", id)
			}
			return err
		}
		if err := errors.Join(write("a", "", "h1", 0, time.Minute), write("a", "h1", "h2", 1, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := write("b", "", "h1", 0, time.Hour); !errors.Is(err, dedupe.ErrFull) {
			t.Errorf("118 bytes: %v", err)
		}
		if got, err := s.ReadConversation(t.Context(), conversation.Key{Tenant: "acme", ID: "b"}, 0, 100); err != nil || len(got.Head) != 0 {
			t.Errorf("of what was refused there is %q, %v", got.Head, err)
		}
		time.Sleep(time.Minute)
		if err := errors.Join(write("a", "", "h1", 0, time.Hour), write("b", "", "h1", 0, time.Hour)); err != nil {
			t.Errorf("after the first has expired: %v", err)
		}
	})
}
