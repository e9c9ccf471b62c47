//go:build e2e

package redisstore

import (
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

var benchRecords = flag.Int("records", 10_000, "records in the store before BenchmarkFind begins")

// BenchmarkFind asks for one call among -records, for none, and for the first page of a term
// that a tenth of them have.
func BenchmarkFind(b *testing.B) {
	srv, n := redisserver.Start(b, redisserver.Options{}), *benchRecords
	s := open(b, Options{Addrs: []string{srv.Addr}})
	var fill sync.WaitGroup
	for worker := range 256 {
		fill.Go(func() {
			for i := worker; i < n; i += 256 {
				req := request(strconv.Itoa(i), tool.NonIdempotent)
				req.Key.Conversation = strconv.Itoa(i / 10)
				req.Terms = []dedupe.Term{benchTerm("own", i), benchTerm("customer", i/5), benchTerm("tenth", i%10)}
				if _, err := s.Admit(b.Context(), req); err != nil {
					b.Error(err)
				}
			}
		})
	}
	fill.Wait()
	for _, c := range []struct {
		name  string
		term  dedupe.Term
		calls int
	}{{"hit", benchTerm("own", n/2), 1}, {"miss", benchTerm("never", 0), 0}, {"first page of many", benchTerm("tenth", 0), 100}} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			redis, ours := redisCPU(b, srv), ownCPU(b)
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
			b.ReportMetric((redisCPU(b, srv)-redis)*1e6/float64(b.N), "redis-cpu-us")
			b.ReportMetric((ownCPU(b)-ours)*1e6/float64(b.N), "own-cpu-us")
		})
	}
}

func benchTerm(name string, i int) dedupe.Term {
	return dedupe.TermOf("acme", "argument", name, strconv.Itoa(i))
}
