package guard_test

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// fullLogs are what takes longest to judge: nothing ends a walk early, and each
// entry has to be compared with those before it.
func fullLogs() map[string][][]byte {
	logs := map[string][][]byte{}
	add := func(name string, entry func(i int) guard.Entry) {
		for i := range guard.LogEntries {
			e := entry(i)
			e.ID, e.Start = guard.Hash(1000+i), guard.Instant(1000*i)
			e.End = e.Start + 10
			logs[name] = append(logs[name], e.AppendTo(nil))
		}
	}
	add("reads", func(i int) guard.Entry {
		return guard.Entry{Call: guard.Call{Tool: fmt.Sprintf("tool_%d", i%7), Same: guard.Hash(i + 1), Effect: tool.ReadOnly}, Kind: guard.OK, Outcome: guard.Hash(i)}
	})
	add("writes", func(i int) guard.Entry {
		return guard.Entry{Call: guard.Call{Tool: "write_row", Same: guard.Hash(i%24 + 1)}, Kind: guard.OK, Outcome: 1}
	})
	add("no_news", func(i int) guard.Entry {
		return guard.Entry{Call: guard.Call{Tool: fmt.Sprintf("tool_%d", i%24), Same: guard.Hash(i%24 + 1), Effect: tool.ReadOnly}, Kind: guard.OK, Outcome: 1}
	})
	return logs
}

func BenchmarkCall(b *testing.B) {
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		b.Fatal(err)
	}
	for name, raw := range fullLogs() {
		c := guard.Call{Tool: "search", Same: 9999, ID: 1, Start: 1_000_000, Effect: tool.ReadOnly}
		e := guard.Entry{Call: c, Kind: guard.OK, Outcome: 77, End: 1_000_010}
		// All that the guard does for a call: read, judge, judge again, write.
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, guard.MaxEntryBytes)
			b.ReportAllocs()
			for b.Loop() {
				log := guard.Read(raw)
				if g.Before(log, c).Level != guard.Pass || g.After(log, e).Level != guard.Pass {
					b.Fatal("refused")
				}
				buf = e.AppendTo(buf[:0])
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	raw := fullLogs()["reads"]
	b.ReportAllocs()
	for b.Loop() {
		guard.Read(raw)
	}
}

func BenchmarkBefore(b *testing.B) {
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		b.Fatal(err)
	}
	for name, raw := range fullLogs() {
		log := guard.Read(raw)
		c := guard.Call{Tool: "search", Same: 9999, ID: 1, Start: 1_000_000, Effect: tool.ReadOnly}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Before(log, c)
			}
		})
	}
}

func BenchmarkFailure(b *testing.B) {
	e := tool.Error{Code: tool.CodeNotFound, Constraint: "status 404", Received: "order A-17 of user mia_li_3668 not found"}
	args := map[string]any{"order_id": "A-17", "user": "mia_li_3668", "cents": 500.0}
	b.ReportAllocs()
	for b.Loop() {
		guard.Failure(e, args)
	}
}
