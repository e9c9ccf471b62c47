//go:build e2e

package redisstore

import (
	"context"
	"crypto/rand"
	"flag"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// BenchmarkAdmitSettle makes one call per iteration, 32 in flight on two processors, bare,
// found by three terms, and as an agent's call is: with these, a budget, details and logs.
func BenchmarkAdmitSettle(b *testing.B) {
	b.Run("bare", func(b *testing.B) { admitSettle(b, func(*dedupe.Request, *dedupe.Settlement) {}) })
	b.Run("found by three terms", func(b *testing.B) {
		admitSettle(b, func(req *dedupe.Request, _ *dedupe.Settlement) {
			for range 3 {
				req.Terms = append(req.Terms, dedupe.TermOf("acme", "argument", "order_id", rand.Text()))
			}
		})
	})
	b.Run("agent's", func(b *testing.B) {
		entry := make([]byte, 65)
		admitSettle(b, func(req *dedupe.Request, end *dedupe.Settlement) {
			req.Draw = dedupe.Draw{Counter: "prompt", MaxCalls: 1 << 30, MaxTokens: 1 << 40}
			req.Logs = []string{"calls", "failed/" + req.Key.ID, "failed"}
			req.Details = make([]byte, 100)
			for _, name := range [...]string{req.Key.ID, req.Key.Conversation, rand.Text()} {
				req.Terms = append(req.Terms, dedupe.TermOf("acme", "argument", "order_id", name))
			}
			end.Appends = []dedupe.Append{{Log: "calls", Entry: entry, Keep: 64}}
			end.Tokens = 100
		})
	})
}

func admitSettle(b *testing.B, as func(*dedupe.Request, *dedupe.Settlement)) {
	srv := redisserver.Start(b, redisserver.Options{})
	s := open(b, Options{Addrs: []string{srv.Addr}})
	result := make([]byte, 600)
	b.SetParallelism(16)
	b.ReportAllocs()
	before, ours := redisCPU(b, srv), ownCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		conversation := rand.Text()
		for n := 0; pb.Next(); n++ {
			req := request(rand.Text(), tool.NonIdempotent)
			if n%10 == 0 {
				conversation = rand.Text()
			}
			req.Key.Conversation = conversation
			end := settlement(req.Key.ID, "")
			end.Key, end.Result = req.Key, result
			as(&req, &end)
			if a, err := s.Admit(ctx, req); err != nil || a.Verdict != dedupe.Won {
				b.Error(a.Verdict, err)
				return
			}
			if _, err := s.Settle(ctx, end); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(s.RoundTrips())/float64(b.N), "commands/call")
	b.ReportMetric((redisCPU(b, srv)-before)*1e6/float64(b.N), "redis-cpu-us/call")
	b.ReportMetric(scriptTime(srv)/float64(b.N), "script-us/call")
	b.ReportMetric((ownCPU(b)-ours)*1e6/float64(b.N), "own-cpu-us/call")
	b.ReportMetric(memory(srv)/float64(b.N), "redis-bytes/call")
}

// scriptTime is how long a server was at scripts, in microseconds.
func scriptTime(srv *redisserver.Server) (us float64) {
	info, _ := srv.Do("info", "commandstats").(string)
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:")
	_, rest, _ = strings.Cut(rest, "usec=")
	spent, _, _ := strings.Cut(rest, ",")
	us, _ = strconv.ParseFloat(spent, 64)
	return us
}

// memory is what a server uses.
func memory(srv *redisserver.Server) float64 {
	n, _ := strconv.ParseFloat(srv.Info("used_memory"), 64)
	return n
}

// redisCPU is what a server has used, in seconds.
func redisCPU(b *testing.B, srv *redisserver.Server) (sum float64) {
	b.Helper()
	info, _ := srv.Do("info", "cpu").(string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return sum
}

// ownCPU is what this process has used, in seconds.
func ownCPU(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

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
				req.Terms = []dedupe.Term{benchTerm("own", i), benchTerm("conversation", i/10), benchTerm("tenth", i%10)}
				if _, err := s.Admit(b.Context(), req); err != nil {
					b.Error(err)
				}
				if i%10 != 0 {
					continue
				}
				if _, err := s.WriteConversation(b.Context(), benchConversation(i/10)); err != nil {
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
