package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) dedupe.Store {
			s := New(Options{})
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

func admit(t *testing.T, s *Store, req dedupe.Request) {
	t.Helper()
	if got, err := s.Admit(context.Background(), req); err != nil || got.Verdict != dedupe.Won {
		t.Fatalf("%v, %v", got.Verdict, err)
	}
}

func TestRecordsAreSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		for i := range 1000 {
			admit(t, s, call(i, time.Minute))
		}
		// One of them is given more time, and outlives the others.
		if ok, err := storetest.Renew(context.Background(), s, tool.CallID{ID: "0"}, "owner-0", 1, 2*time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(30 * time.Second)
		if ok, err := storetest.Renew(context.Background(), s, tool.CallID{ID: "0"}, "owner-0", 1, 2*time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(31 * time.Second)
		for range 1000 / sweepBatch {
			if err := s.Ping(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.records.entries) != 1 || len(s.records.queue) != 1 {
			t.Errorf("%d records and %d in the queue are left, want the renewed one", len(s.records.entries), len(s.records.queue))
		}
	})
}

// What has expired is not there, though only a few of it are swept at a time.
func TestWhatHasExpiredIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		const n = 3 * sweepBatch
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

func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	s := New(Options{MaxRecords: 2})
	admit(t, s, call(1, time.Hour))
	admit(t, s, call(2, time.Hour))
	if _, err := s.Admit(context.Background(), call(3, time.Hour)); !errors.Is(err, dedupe.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if got, err := s.Admit(context.Background(), call(2, time.Hour)); err != nil || got.Verdict != dedupe.Won {
		t.Errorf("a known call was refused: %v, %v", got, err)
	}
}

func TestOutputsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := New(Options{MaxOutputBytes: 100})
	for i := range 5 {
		admit(t, s, call(i, time.Hour))
		_, err := s.Settle(ctx, dedupe.Settlement{
			Key: tool.CallID{ID: fmt.Sprint(i)}, Owner: fmt.Sprint("owner-", i), Epoch: 1, State: dedupe.Done, Retention: time.Hour,
			Output: &dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, 40), TTL: time.Hour},
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
	if s.outputs.bytes != 80 || len(s.outputs.entries) != 2 {
		t.Errorf("%d bytes in %d outputs", s.outputs.bytes, len(s.outputs.entries))
	}
}

// BenchmarkAdmitSettle makes one call per iteration, 32 in flight on two
// processors.
func BenchmarkAdmitSettle(b *testing.B) {
	s := New(Options{MaxRecords: 1 << 30})
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
