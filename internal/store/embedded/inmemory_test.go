package embedded_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/tenured"
)

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) dedupe.Store {
			s := tenured.New()
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		},
		In: synctest.Test,
	})
}

func call(id int, retention time.Duration) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{ID: fmt.Sprint(id)}, Owner: fmt.Sprint("owner-", id), Tool: "t",
		Lease: time.Second, Retention: retention,
	}
}

func admit(t *testing.T, s *embedded.Store, req dedupe.Request) {
	t.Helper()
	if got, err := s.Admit(context.Background(), req); err != nil || got.Verdict != dedupe.Won {
		t.Fatalf("%v, %v", got.Verdict, err)
	}
}

// What has expired is not there, though it takes its room until somebody writes.
func TestWhatHasExpiredIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := embedded.InMemory(embedded.Options{})
		const n = 12
		of := func(i int) dedupe.Request {
			req := call(i, time.Minute+time.Duration(i)*time.Second) // they are swept in this order
			req.Key.Conversation = fmt.Sprint(i)
			req.Draw.Counter, req.Logs = "p", []string{"l"}
			req.EffectKey = dedupe.EffectKey{Print: [32]byte{1}, Window: time.Second}
			return req
		}
		for i := range n {
			req := of(i)
			admit(t, s, req)
			_, err := s.Settle(t.Context(), dedupe.Settlement{
				Key: req.Key, Owner: req.Owner, Epoch: 1, State: dedupe.Done, Retention: req.Retention,
				Appends: []dedupe.Append{{Log: "l", Entry: []byte("x"), Keep: 1}},
				Output:  &dedupe.Output{Ref: fmt.Sprint(i), Data: []byte("x"), TTL: req.Retention},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := s.Output(t.Context(), "", fmt.Sprint(n-1)); !errors.Is(err, dedupe.ErrNoOutput) {
			t.Errorf("its output: %v", err)
		}
		again := of(n - 1)
		again.Owner = "another"
		got, err := s.Admit(t.Context(), again)
		if err != nil || got.Verdict != dedupe.Won || got.Record.Epoch != 1 || len(got.Logs[0]) != 0 {
			t.Errorf("its call: %v at epoch %d with %q, %v", got.Verdict, got.Record.Epoch, got.Logs, err)
		}
		noted, err := s.Note(t.Context(), dedupe.Note{Key: of(n - 2).Key, Counter: "p", Retention: time.Minute})
		if err != nil || noted.Tally != (dedupe.Tally{}) || noted.Record.State != dedupe.Absent {
			t.Errorf("another: %+v, %v", noted, err)
		}
	})
}

// What is kept together is bounded; what has expired makes room.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := embedded.InMemory(embedded.Options{MaxBytes: 8 << 20})
		write := func(id int, ttl time.Duration) error {
			written, err := s.WriteConversation(t.Context(), conversation.Write{
				Key: conversation.Key{ID: fmt.Sprint(id)}, Head: []byte("h"), Messages: [][]byte{make([]byte, 500<<10)}, TTL: ttl,
			})
			if err == nil && !written {
				t.Errorf("%d is not written", id)
			}
			return err
		}
		admit(t, s, call(0, time.Hour))
		n := 0
		err := write(n, time.Minute)
		for ; err == nil; err = write(n, time.Minute) {
			n++
		}
		if !errors.Is(err, dedupe.ErrFull) || !strings.Contains(err.Error(), "store.memory") || n < 5 || n > 16 {
			t.Errorf("after %d of 500 KiB in 8 MiB: %v", n, err)
		}
		if got, err := s.ReadConversation(t.Context(), conversation.Key{ID: fmt.Sprint(n)}, 0, 100); err != nil || len(got.Head) != 0 {
			t.Errorf("of what was refused there is %q, %v", got.Head, err)
		}
		if got, err := s.Admit(t.Context(), call(0, time.Hour)); err != nil || got.Verdict != dedupe.Won {
			t.Errorf("a known call was refused: %v, %v", got, err)
		}
		time.Sleep(2 * time.Minute)
		for id := range n {
			if err := write(id, time.Hour); err != nil {
				t.Errorf("%d after all have expired: %v", id, err)
			}
		}
	})
}

func TestOutputsInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := embedded.InMemory(embedded.Options{MaxBytes: 3 << 20})
	for i := range 5 {
		admit(t, s, call(i, time.Hour))
		_, err := s.Settle(ctx, dedupe.Settlement{
			Key: tool.CallID{ID: fmt.Sprint(i)}, Owner: fmt.Sprint("owner-", i), Epoch: 1, State: dedupe.Done, Retention: time.Hour,
			Output: &dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, 400<<10), TTL: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		_, err := s.Output(ctx, "", fmt.Sprint(i))
		if kept := err == nil; kept != (i >= 3) {
			t.Errorf("output %d: kept %v, want only the newest two", i, kept)
		}
	}
}

// An append costs what is appended, and not what is there already.
func TestAnAppendCostsWhatIsAppended(t *testing.T) {
	s := embedded.InMemory(embedded.Options{})
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
	s := embedded.InMemory(embedded.Options{})
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

// BenchmarkInMemory makes one call per iteration, 32 in flight on two
// processors.
func BenchmarkInMemory(b *testing.B) {
	s := embedded.InMemory(embedded.Options{MaxBytes: 16 << 30})
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			key := tool.CallID{Conversation: "c", Turn: "1", ID: rand.Text()}
			if _, err := s.Admit(ctx, dedupe.Request{Key: key, Owner: "o", Tool: "t", Lease: time.Minute, Retention: time.Hour}); err != nil {
				b.Error(err)
			}
			if _, err := s.Settle(ctx, dedupe.Settlement{Key: key, Owner: "o", Epoch: 1, State: dedupe.Done, Retention: time.Hour}); err != nil {
				b.Error(err)
			}
		}
	})
}
