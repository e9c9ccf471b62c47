package embedded

import (
	"context"
	"crypto/rand"
	"flag"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/tool"
)

var benchRecords = flag.Int("records", 0, "records in the store before BenchmarkAdmitSettle begins")

// BenchmarkAdmitSettle makes one call per iteration: a claim and a settlement,
// each on the disk before it returns, 32 in flight on two processors. Compare
// -records 0 with -records 1000000.
func BenchmarkAdmitSettle(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), Options{})
	fill(b, s, *benchRecords)
	begun := time.Now()
	s = reopen(b, s)
	opened := time.Since(begun)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneCall(b, s)
		}
	})
	b.ReportMetric(float64(opened.Milliseconds()), "ms-to-open")
}

var benchResult = make([]byte, 600)

func oneCall(b *testing.B, s *Store) {
	req := request(rand.Text(), tool.NonIdempotent)
	req.Key.Conversation = rand.Text()
	if _, err := s.Admit(context.Background(), req); err != nil {
		b.Error(err)
	}
	end := settlement(req.Key.ID, "")
	end.Key, end.Result = req.Key, benchResult
	if _, err := s.Settle(context.Background(), end); err != nil {
		b.Error(err)
	}
}

func fill(b *testing.B, s *Store, records int) {
	const workers = 1024
	var crowd sync.WaitGroup
	for range workers {
		crowd.Go(func() {
			for range records / workers {
				oneCall(b, s)
			}
		})
	}
	crowd.Wait()
}
