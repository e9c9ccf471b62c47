package memory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/memory"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/tenured"
)

func TestConformance(t *testing.T) {
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

func admit(t *testing.T, s *memory.Store, req dedupe.Request) {
	t.Helper()
	if got, err := s.Admit(context.Background(), req); err != nil || got.Verdict != dedupe.Won {
		t.Fatalf("%v, %v", got.Verdict, err)
	}
}

// What has expired is not there, though it takes its room until somebody writes.
func TestWhatHasExpiredIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
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
		s := memory.New(memory.Options{MaxBytes: 8 << 20})
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

func TestOutputsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := memory.New(memory.Options{MaxBytes: 3 << 20})
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

// BenchmarkAdmitSettle makes one call per iteration, 32 in flight on two
// processors.
func BenchmarkAdmitSettle(b *testing.B) {
	s := memory.New(memory.Options{MaxBytes: 16 << 30})
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
