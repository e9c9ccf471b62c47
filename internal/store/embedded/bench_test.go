package embedded

import (
	"context"
	"crypto/rand"
	"flag"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

var benchRecords = flag.Int("records", 0, "records in the store before BenchmarkAdmitSettle begins")

// BenchmarkAdmitSettle makes one call per iteration: a claim and a settlement,
// each on the disk before it returns, 32 in flight on two processors. Compare
// -records 0 with -records 1000000.
func BenchmarkAdmitSettle(b *testing.B) {
	b.Run("bare", func(b *testing.B) { admitSettle(b, 0) })
	b.Run("found by three terms", func(b *testing.B) { admitSettle(b, 3) })
}

func admitSettle(b *testing.B, terms int) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), Options{})
	fill(b, s, *benchRecords, terms)
	begun := time.Now()
	s = reopen(b, s)
	opened := time.Since(begun)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneCall(b, s, terms)
		}
	})
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(opened.Milliseconds()), "ms-to-open")
}

// cpuTime is what this process has used: unlike the time of day it says what a
// call costs on a busy machine too.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

var benchResult = make([]byte, 600)

func oneCall(b *testing.B, s *Store, terms int) {
	req := request(rand.Text(), tool.NonIdempotent)
	req.Key.Conversation = rand.Text()
	for range terms {
		req.Terms = append(req.Terms, dedupe.TermOf("acme", "argument", "order_id", rand.Text()))
	}
	if _, err := s.Admit(context.Background(), req); err != nil {
		b.Error(err)
	}
	end := settlement(req.Key.ID, "")
	end.Key, end.Result = req.Key, benchResult
	if _, err := s.Settle(context.Background(), end); err != nil {
		b.Error(err)
	}
}

func fill(b *testing.B, s *Store, records, terms int) {
	const workers = 1024
	var crowd sync.WaitGroup
	for range workers {
		crowd.Go(func() {
			for range records / workers {
				oneCall(b, s, terms)
			}
		})
	}
	crowd.Wait()
}

// BenchmarkFind asks for one call among -records, for none, and for the first page of a term
// that a tenth of them have.
func BenchmarkFind(b *testing.B) {
	n := max(*benchRecords, 1000)
	_, bare := benchStore(b, n, false)
	s, heap := benchStore(b, n, true)
	b.Logf("%d bytes of memory a call, of which %d are those of its terms", heap/n, (heap-bare)/n)
	begun := time.Now()
	s = reopen(b, s)
	b.Logf("opened in %v", time.Since(begun).Round(time.Millisecond))
	for _, c := range []struct {
		name  string
		term  dedupe.Term
		calls int
	}{{"hit", benchTerm("own", n/2), 1}, {"miss", benchTerm("never", 0), 0}, {"first page of many", benchTerm("tenth", 0), 100}} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				page, err := s.Find(b.Context(), dedupe.Search{Tenant: "acme", Term: c.term, Most: 100})
				took = append(took, time.Since(begun))
				if err != nil || len(page.Calls) != c.calls {
					b.Fatal(len(page.Calls), err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
		})
	}
	b.Run("a conversation with its calls", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			begun, of := time.Now(), benchConversation(n/20)
			kept, err := s.ReadConversation(b.Context(), of.Key, 0, 1<<20)
			if err != nil || len(kept.Messages) != len(of.Messages) {
				b.Fatal(len(kept.Messages), err)
			}
			page, err := s.Find(b.Context(), dedupe.Search{Tenant: "acme", Term: benchTerm("conversation", n/20), Most: 100})
			if err != nil || len(page.Calls) != 10 {
				b.Fatal(len(page.Calls), err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	})
}

// benchConversation is one of twenty messages, of ten calls.
func benchConversation(i int) conversation.Write {
	w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: strconv.Itoa(i)}, Head: []byte("head"), TTL: 24 * time.Hour}
	for range 20 {
		w.Messages = append(w.Messages, make([]byte, 300))
	}
	return w
}

func benchTerm(name string, i int) dedupe.Term {
	return dedupe.TermOf("acme", "argument", name, strconv.Itoa(i))
}

// benchStore has so many calls that are done, each with three terms if they are indexed, many in
// a commit; heap is what it takes of memory.
func benchStore(b *testing.B, n int, indexed bool) (s *Store, heap int) {
	inUse := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := inUse()
	s = open(b, filepath.Join(b.TempDir(), "store.db"), Options{})
	for from := 0; from < n; from += 1000 {
		op := own(dedupe.Frees, 1<<20, func(t *txn) {
			for i := from; i < min(n, from+1000); i++ {
				key := tool.CallID{Tenant: "acme", Conversation: strconv.Itoa(i / 10), Turn: "1", ID: strconv.Itoa(i)}
				record := dedupe.Record{State: dedupe.Done, Epoch: 1, Owner: "o", Tool: "refund", StartedAt: t.now, FinishedAt: t.now, Result: benchResult}
				var terms []dedupe.Term
				if indexed {
					terms = []dedupe.Term{benchTerm("own", i), benchTerm("conversation", i/10), benchTerm("tenth", i%10)}
				}
				t.SetCall(key, &record, 24*time.Hour, terms)
				if i%10 == 0 {
					w := benchConversation(i / 10)
					t.writeConversation(conversationKey(w.Key), &w)
				}
			}
		})
		if err := s.do(b.Context(), op); err != nil {
			b.Fatal(err)
		}
	}
	return s, inUse() - before
}
