package embedded

import (
	"context"
	"crypto/rand"
	"flag"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
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
	cpu := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneCall(b, s)
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
