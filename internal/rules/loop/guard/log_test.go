package guard

import (
	"math/rand/v2"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// A glance at a log never misses what the rules would say.
func TestAGlanceMissesNothing(t *testing.T) {
	t.Parallel()
	var guards []*Guard
	for _, limits := range []Thresholds{
		{},
		{SameCall: Limit{2, 3}, SameError: Limit{2, 3}, SameResult: Limit{2, 3}, Malformed: Limit{2, 3}, Cycle: Limit{-1, 2}},
		{SameCall: Limit{-1, 2}, SameError: Limit{-1, 2}, SameResult: Limit{-1, 2}, Malformed: Limit{-1, 2}, AcrossEffects: Limit{-1, 2}},
	} {
		g, err := New(limits)
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, g)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var before, after int
	for range 200_000 {
		// From a log without repetitions to one with little else.
		kinds := 1 + random.IntN(40)
		call := func(at int) Call {
			return Call{
				Tool: string(rune('a' + random.IntN(3))), Same: Hash(random.IntN(kinds)), ID: Hash(random.IntN(4 * kinds)),
				Words: Words(random.IntN(kinds)), Start: Instant(at), Effect: tool.Effect(random.IntN(4)), Polling: random.IntN(8) == 0,
			}
		}
		entry := func(at int) Entry {
			e := Entry{Call: call(at), Kind: OK, Outcome: Hash(random.IntN(kinds)), End: Instant(at + 5)}
			if random.IntN(kinds) == 0 {
				e.Kind = Kind(1 + random.IntN(5))
			}
			e.Empty = e.Kind == OK && random.IntN(kinds) < 4
			if e.Kind == Refused {
				e.Rule, e.Count, e.Refusals = Rule(1+random.IntN(5)), 3, 1+random.IntN(5)
			}
			return e
		}
		var raw [][]byte
		for i := range random.IntN(12) {
			e := entry(10 * i)
			raw = append(raw, e.AppendTo(nil))
		}
		g, log, e := guards[random.IntN(len(guards))], Read(raw), entry(1000)
		if log.quiet(&e.Call) {
			before++
			if v := g.before(log.entries(), e.Call); v.Level != Pass {
				t.Fatalf("%+v before %+v in %+v", v, e.Call, log.entries())
			}
		}
		if e.Kind == OK && log.quiet(&e.Call) {
			after++
			if v := g.after(log.entries(), e); v.Level != Pass {
				t.Fatalf("%+v after %+v in %+v", v, e, log.entries())
			}
		}
	}
	if before < 20_000 || after < 20_000 {
		t.Errorf("a glance was enough %d times before a call and %d times after one: that shows little", before, after)
	}
}
