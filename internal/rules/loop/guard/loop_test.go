package guard_test

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// loop plays what happens around the guard: a store that keeps the log of a prompt,
// calls that are admitted and settled, one second after the other.
type loop struct {
	t     testing.TB
	guard *guard.Guard
	// keep is how many entries the store keeps.
	keep int
	log  [][]byte
	now  guard.Instant
	ids  int
}

func newLoop(t testing.TB, thresholds guard.Thresholds) *loop {
	t.Helper()
	g, err := guard.New(thresholds)
	if err != nil {
		t.Fatal(err)
	}
	return &loop{t: t, guard: g, keep: guard.LogEntries, now: 1_700_000_000_000}
}

// newPrompt begins another prompt: its log is empty.
func (l *loop) newPrompt() { l.log = nil }

func (l *loop) append(e guard.Entry) {
	raw := e.AppendTo(nil)
	if len(raw) > guard.MaxEntryBytes {
		l.t.Errorf("an entry of %d bytes, want at most %d", len(raw), guard.MaxEntryBytes)
	}
	l.log = append(l.log, raw)
	l.log = l.log[max(0, len(l.log)-l.keep):]
}

// turn is a call that is made, and what comes of it if it is.
type turn struct {
	tool   string
	args   string
	effect tool.Effect
	poll   bool
	id     string

	kind    guard.Kind
	outcome guard.Hash
	empty   bool
	// passing: it is transient, and no entry is due.
	passing bool
	// turnedAway: refused before the guard was asked. What is malformed always is.
	turnedAway bool
}

// call is the turn as the guard sees it, beginning now.
func (l *loop) call(w turn, batch guard.Hash) guard.Call {
	l.t.Helper()
	c := guard.Call{Tool: w.tool, Batch: batch, Start: l.now, Effect: w.effect, Polling: w.poll}
	if w.id == "" {
		l.ids++
		w.id = fmt.Sprintf("call_%d", l.ids)
	}
	c.ID = guard.Sum([]byte(w.id))
	if w.kind == guard.Invalid || w.kind == guard.UnknownTool {
		c.Same = guard.Sum([]byte(w.tool + "\x00" + w.args))
		return c
	}
	args, violation := schema.ParseArgs(w.tool, w.args)
	if violation != nil {
		l.t.Fatalf("%s %s: %v", w.tool, w.args, violation)
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Same = guard.Cut(schema.Fingerprint(w.tool, canonical))
	if w.effect == tool.ReadOnly {
		c.Words = guard.WordsOf(args)
	}
	return c
}

// make makes one call and returns what the guard has to say of it.
func (l *loop) make(w turn) guard.Verdict {
	l.t.Helper()
	defer func() { l.now += 1000 }()
	return l.run(w, l.call(w, 0), l.log, l.now+10)
}

// run is one call that is admitted with the log as it was when it came.
func (l *loop) run(w turn, c guard.Call, admission [][]byte, end guard.Instant) guard.Verdict {
	e := guard.Entry{Call: c, Kind: w.kind, Outcome: w.outcome, Empty: w.empty, End: end}
	if w.turnedAway || w.kind == guard.Invalid || w.kind == guard.UnknownTool {
		l.append(e)
		return l.guard.TurnedAway(guard.Read(l.log))
	}
	log := guard.Read(admission)
	if v := l.guard.Before(log, c); v.Level.Refused() {
		l.append(c.Refuse(v, c.Start+1))
		return v
	}
	if w.passing {
		return guard.Verdict{}
	}
	v := l.guard.After(log, e)
	l.append(e)
	return v
}

// together makes calls at once, as a batch or each on its own.
func (l *loop) together(turns []turn, batch guard.Hash) []guard.Verdict {
	l.t.Helper()
	defer func() { l.now += 1000 }()
	calls := make([]guard.Call, len(turns))
	for i, w := range turns {
		calls[i] = l.call(w, batch)
	}
	verdicts := make([]guard.Verdict, len(turns))
	if batch != 0 {
		verdicts = l.guard.Batch(calls)
	}
	admission := l.log
	for i, w := range turns {
		if verdicts[i].Level.Refused() {
			l.append(calls[i].Refuse(verdicts[i], l.now+1))
			continue
		}
		if v := l.run(w, calls[i], admission, l.now+10+guard.Instant(i)); v.Level > verdicts[i].Level {
			verdicts[i] = v
		}
	}
	return verdicts
}

// lane makes the calls of a batch one after the other.
func (l *loop) lane(turns []turn, batch guard.Hash) []guard.Verdict {
	l.t.Helper()
	defer func() { l.now += 1000 }()
	verdicts := make([]guard.Verdict, len(turns))
	for i, w := range turns {
		verdicts[i] = l.run(w, l.call(w, batch), l.log, l.now+10)
		l.now += 20
	}
	return verdicts
}

// says is a verdict as the corpus writes it: "nudge same_call 3".
func says(v guard.Verdict) string {
	if v.Level == guard.Pass {
		return "pass"
	}
	return fmt.Sprintf("%v %v %d", v.Level, v.Rule, v.Count)
}

// Whoever goes on after a stop is told so for ever, though the loop itself has left
// the log.
func TestStopIsForGood(t *testing.T) {
	for rule, call := range map[guard.Rule]func(i int) turn{
		guard.SameCall: func(int) turn { return read },
		guard.Cycle: func(i int) turn {
			return turn{tool: []string{"a", "b"}[min(i, 5)%2], args: "{}", effect: tool.ReadOnly, kind: guard.OK}
		},
		guard.SameError: func(i int) turn {
			return turn{tool: "book", args: fmt.Sprintf(`{"n":%d}`, i), kind: guard.Failed, outcome: 9}
		},
		guard.SameResult: func(i int) turn {
			return turn{tool: "search", args: fmt.Sprintf(`{"n":%d}`, i), effect: tool.ReadOnly, kind: guard.OK, outcome: 9, empty: true}
		},
	} {
		l := newLoop(t, guard.Thresholds{})
		stopped := false
		for i := range 4 * guard.LogEntries {
			v := l.make(call(i))
			if stopped && (v.Level != guard.Stop || v.Rule != rule) {
				t.Errorf("%v, call %d after a stop: %+v", rule, i+1, v)
				break
			}
			stopped = v.Level == guard.Stop
		}
		if !stopped {
			t.Errorf("%v: no stop", rule)
		}
	}
}

// Calls that overlap one by one are one group, also when the longest came last.
func TestOverlappingCallsAreTogether(t *testing.T) {
	l := newLoop(t, guard.Thresholds{Malformed: guard.Limit{Nudge: 2}})
	for _, at := range [][2]guard.Instant{{0, 100}, {50, 250}, {200, 300}, {400, 410}} {
		l.append(guard.Entry{Call: guard.Call{Tool: "x", Start: at[0]}, Kind: guard.UnknownTool, End: at[1]})
	}
	if v := l.guard.TurnedAway(guard.Read(l.log)); v.Count != 3 || v.Since != 50 {
		t.Errorf("%+v, want 3 since 50: the last one, and two of the three before it", v)
	}
}

// Who called before a refusal had ended could not know of it: it is not on trial.
func TestRefusalThatNobodyHasSeen(t *testing.T) {
	l := newLoop(t, guard.Thresholds{})
	search := func(i int) turn {
		return turn{tool: "search", args: fmt.Sprintf(`{"n":%d}`, i), effect: tool.ReadOnly, kind: guard.OK, outcome: 9, empty: true}
	}
	for i := range 24 {
		l.make(search(i))
	}
	beside := l.call(search(25), 0)
	l.now += 10
	if v := l.make(search(24)); v.Level != guard.Refuse {
		t.Fatalf("%+v", v)
	}
	if v := l.run(search(25), beside, l.log, l.now); v.Level != guard.Refuse || v.Refusals != 1 {
		t.Errorf("%+v, want the same refusal", v)
	}
}
