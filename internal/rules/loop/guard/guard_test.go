package guard_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// nothing is found.
var nothing = turn{tool: "search", args: `{}`, effect: tool.ReadOnly, kind: guard.OK, outcome: 9, empty: true}

var read = turn{tool: "get_order", args: `{"order_id":"A-17"}`, effect: tool.ReadOnly, kind: guard.OK, outcome: 1}

func TestVerdictHasTheFacts(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	began := l.now
	for range 3 {
		l.make(read)
	}
	want := guard.Verdict{
		Level: guard.Refuse, Rule: guard.SameCall, Tool: "get_order",
		Count: 4, Limit: 4, Since: began, Refusals: 1,
	}
	if diff := cmp.Diff(want, l.make(read)); diff != "" {
		t.Error(diff)
	}
}

func TestCycleNamesItsRound(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	l.make(turn{tool: "start", args: "{}", effect: tool.ReadOnly, kind: guard.OK})
	began := l.now
	var v guard.Verdict
	for i := range 9 {
		name := []string{"a", "b", "c"}[i%3]
		v = l.make(turn{tool: name, args: "{}", effect: tool.ReadOnly, kind: guard.OK, outcome: guard.Sum([]byte(name))})
	}
	want := guard.Verdict{
		Level: guard.Refuse, Rule: guard.Cycle, Tool: "c", Count: 3, Limit: 3, Since: began, Refusals: 1,
		Round: []string{"a", "b", "c"},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

func TestDuplicateNamesTheFirst(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	pay := turn{tool: "pay", args: `{"cents":500}`, kind: guard.OK}
	v := l.together([]turn{read, pay, pay}, 1)[2]
	if v.Rule != guard.Duplicate || v.First != 1 || v.Limit != 2 || v.Count != 2 || v.Level != guard.Refuse {
		t.Errorf("%+v", v)
	}
}

// A nil guard, and one with every rule off, says nothing.
func TestOff(t *testing.T) {
	off := guard.Limit{Nudge: -1, Refuse: -1}
	l := newLoop(t, guard.Thresholds{SameCall: off, Cycle: off, SameError: off, SameResult: off, Malformed: off, DuplicateEffect: off, DuplicateRead: off})
	if l.guard != nil {
		t.Errorf("a guard without rules: %+v", l.guard.Thresholds())
	}
	for range 10 {
		if v := l.make(read); v.Level != guard.Pass {
			t.Errorf("%+v", v)
		}
		if v := l.make(turn{tool: "x", args: "{}", kind: guard.UnknownTool}); v.Level != guard.Pass {
			t.Errorf("%+v", v)
		}
	}
	if v := l.together([]turn{read, read, read, read, read}, 1); v[4].Level != guard.Pass {
		t.Errorf("%+v", v)
	}
}

// A rule that is off leaves its loops to the others.
func TestOneRuleOff(t *testing.T) {
	l := newLoop(t, guard.Thresholds{SameCall: guard.Limit{Nudge: -1, Refuse: -1}})
	for i := range 20 {
		if v := l.make(read); v.Level != guard.Pass {
			t.Fatalf("call %d: %+v", i+1, v)
		}
	}
}

// Without a stop every second call is let through by a vague rule, for good.
func TestNeverStopping(t *testing.T) {
	l := newLoop(t, guard.Thresholds{Stop: -1, Escalate: -1})
	refused := 0
	for i := range 45 {
		v := l.make(turn{tool: "book", args: fmt.Sprintf(`{"n":%d}`, i), kind: guard.Failed, outcome: 9})
		if v.Level > guard.Refuse {
			t.Fatalf("call %d: %+v", i+1, v)
		}
		if v.Level == guard.Refuse {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d of 45 calls refused, want 20: the 6th and every second after it", refused)
	}
}

// A call that was refused may be asked for again under its id. It stays refused,
// however often, and that is one refusal.
func TestRefusedIDStaysRefused(t *testing.T) {
	vary := func(w turn, i int) turn {
		w.args = fmt.Sprintf(`{"n":%d}`, i)
		return w
	}
	for rule, c := range map[guard.Rule]struct {
		before int
		call   func(i int) turn
	}{
		guard.SameCall: {3, func(int) turn { return read }},
		guard.Cycle: {5, func(i int) turn {
			return turn{tool: []string{"a", "b"}[i%2], args: "{}", effect: tool.ReadOnly, kind: guard.OK}
		}},
		guard.SameError:  {5, func(i int) turn { return vary(turn{tool: "book", kind: guard.Failed, outcome: 9}, i) }},
		guard.SameResult: {24, func(i int) turn { return vary(nothing, i) }},
	} {
		l := newLoop(t, guard.Thresholds{})
		for i := range c.before {
			l.make(c.call(i))
		}
		again := c.call(c.before)
		again.id = "toolu_1"
		for i := range 3 * guard.LogEntries {
			if v := l.make(again); v.Level != guard.Refuse || v.Rule != rule || v.Refusals != 1 {
				t.Errorf("%v, time %d: %+v", rule, i+1, v)
				break
			}
		}
	}
}

// Calls of which nobody knows whether they are the same are not.
func TestCallsWithoutASame(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	for i := range 9 {
		c := guard.Call{Tool: []string{"a", "b"}[i%2], Start: l.now}
		if v := l.run(turn{kind: guard.OK}, c, l.log, l.now+1); v.Level != guard.Pass {
			t.Errorf("%+v", v)
		}
		l.now += 1000
	}
}

// Two names that begin alike for longer than an entry keeps are one tool.
func TestOverlongNames(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	name := strings.Repeat("ä", 200)
	var v guard.Verdict
	for range 4 {
		v = l.make(turn{tool: name, args: "{}", effect: tool.ReadOnly, kind: guard.OK})
	}
	if v.Level != guard.Refuse || v.Tool != strings.Repeat("ä", 64) {
		t.Errorf("%+v", v)
	}
	for i := range 4 {
		v = l.make(turn{tool: name, args: fmt.Sprintf(`{"n":%d}`, i), kind: guard.Failed, outcome: 9})
	}
	if v.Level != guard.Nudge || v.Rule != guard.SameError {
		t.Errorf("%+v", v)
	}
}

// randomEntry is one of few calls with one of few outcomes, so that chance makes
// loops of them.
func randomEntry(r *rand.Rand, now guard.Instant) guard.Entry {
	names := []string{"a", "b", "c"}
	e := guard.Entry{Kind: guard.Kind(1 + r.IntN(5)), Outcome: guard.Hash(1 + r.IntN(2))}
	e.Call = randomCall(r, now)
	e.Tool = names[int(e.Same)%3]
	e.Empty = e.Kind == guard.OK && r.IntN(2) == 0
	e.End = e.Start + guard.Instant(r.IntN(1500))
	if e.Kind == guard.Refused {
		e.Rule, e.Count, e.Refusals = guard.Rule(1+r.IntN(6)), 1+r.IntN(9), 1+r.IntN(5)
	}
	return e
}

func randomCall(r *rand.Rand, now guard.Instant) guard.Call {
	c := guard.Call{Same: guard.Hash(1 + r.IntN(6)), Start: now, ID: guard.Hash(r.IntN(60)), Polling: r.IntN(12) == 0}
	c.Tool = []string{"a", "b", "c"}[int(c.Same)%3]
	if r.IntN(3) > 0 {
		c.Effect = tool.ReadOnly
	}
	if r.IntN(6) == 0 {
		c.Batch = guard.Hash(1 + r.IntN(3))
	}
	return c
}

// randomLog is a log in which loops are likely: a short piece, repeated.
func randomLog(r *rand.Rand, now *guard.Instant) (log [][]byte) {
	for len(log) < 4+r.IntN(guard.LogEntries-4) {
		var piece []guard.Entry
		for range 1 + r.IntN(3) {
			piece = append(piece, randomEntry(r, 0))
		}
		for range 1 + r.IntN(12) {
			for _, e := range piece {
				took := e.End - e.Start
				e.Start = *now
				e.End = *now + took
				if e.ID != 0 {
					e.ID = guard.Hash(1 + r.IntN(500))
				}
				if r.IntN(20) == 0 {
					e = randomEntry(r, *now)
				}
				log = append(log, e.AppendTo(nil))
				*now += 1000
			}
		}
	}
	return log[max(0, len(log)-guard.LogEntries):]
}

// impossible says what is wrong with a verdict of Before (0), After (1) or
// TurnedAway (2).
func impossible(of int, v guard.Verdict) string {
	switch {
	case v.Level == guard.Pass && !reflect.DeepEqual(v, guard.Verdict{}):
		return "nothing is said, with facts"
	case of == 0 && v.Level == guard.Nudge:
		return "a nudge before the call is made"
	case of == 1 && v.Level > guard.Nudge:
		return "a refusal of what was done"
	case v.Level.Refused() != (v.Refusals > 0):
		return "refusals that were none, or none that were"
	case v.Level != guard.Pass && (v.Count < 2 || v.Tool == "" || v.Rule == 0 || (v.Rule == guard.Cycle) != (v.Round != nil)):
		return "the facts are not there"
	case v.Level.Refused() && (v.Limit < 2 || v.Count < v.Limit):
		return "refused below its limit"
	}
	return ""
}

// A log that has lost its beginning refuses nothing that the whole would not, and
// goes no further; whatever is judged is judged the same again, and the log is left
// as it is.
func TestShorterLogsRefuseLess(t *testing.T) {
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		t.Fatal(err)
	}
	var levels [guard.Stop + 1]int
	rules := map[guard.Rule]int{}
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 1))
		var now guard.Instant
		log := randomLog(r, &now)
		kept := make([][]byte, len(log))
		for i, b := range log {
			kept[i] = slices.Clone(b)
		}
		c := randomCall(r, now)
		own, err := guard.Decode(log[len(log)-1])
		if err != nil {
			t.Fatal(err)
		}
		own.Kind = guard.Kind(1 + r.IntN(2))
		for i, judge := range []func(log [][]byte) guard.Verdict{
			func(log [][]byte) guard.Verdict { return g.Before(guard.Read(log), c) },
			func(log [][]byte) guard.Verdict { return g.After(guard.Read(log), own) },
			func(log [][]byte) guard.Verdict { return g.TurnedAway(guard.Read(log)) },
		} {
			whole := judge(log)
			if again := judge(log); !reflect.DeepEqual(whole, again) {
				t.Fatalf("seed %d: %+v, and then %+v", seed, whole, again)
			}
			if problem := impossible(i, whole); problem != "" {
				t.Fatalf("seed %d: %s: %+v", seed, problem, whole)
			}
			levels[whole.Level]++
			rules[whole.Rule]++
			for from := 1; from < len(log); from++ {
				if shorter := judge(log[from:]); shorter.Level > whole.Level {
					t.Fatalf("seed %d: without the first %d of %d entries %+v, with them %+v", seed, from, len(log), shorter, whole)
				}
			}
		}
		for i, b := range log {
			if !slices.Equal(b, kept[i]) {
				t.Fatalf("seed %d: entry %d has changed", seed, i)
			}
		}
	}
	t.Logf("levels %v, rules %v", levels, rules)
	for level, n := range levels {
		if n < 50 {
			t.Errorf("%v came up %d times: these logs show nothing", guard.Level(level), n)
		}
	}
	for rule := guard.SameCall; rule <= guard.Malformed; rule++ {
		if rules[rule] < 10 {
			t.Errorf("%v came up %d times: these logs show nothing", rule, rules[rule])
		}
	}
}
