package call

import (
	"cmp"
	"context"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/tool"
)

// longestLook bounds the wait for the end of a call whose tool is gone, and with
// it the deadline that it ran under.
const longestLook = time.Minute

// unlessKnown answers a call that is not to run: with the refusal, unless its id
// is known. What has happened under it has happened, whatever has changed since:
// the tool renamed or gone, its arguments, the profile, the room there is. To
// say "call another tool" of a payment that was made would invite a second one.
// The good path never comes here.
func (e *Executor) unlessKnown(ctx context.Context, c *call, refusal refusal) *answer {
	l := lookup{e, c, refusal}
	if c.ValidateOnly || c.Nameless != nil { // of the latter there can be no record
		return refusal(dedupe.Absent)
	}
	ask := c.rules.ask(refusal(dedupe.Absent))
	c.leave()
	ctx, cancel := whileLooking(c).bound(ctx)
	defer cancel()
	for looked := c.HoldOnly; ; looked = true { // who only asks settles nothing
		known, answer := l.lookUp(ctx, ask)
		if answer != nil {
			return answer
		}
		var tooEarly time.Duration
		r := recordedAs(c, known)
		if known.Record.State == dedupe.Unknown && !looked && r.isOf() {
			var settled bool
			if settled, tooEarly = e.lookAgain(ctx, r.resolved, dedupe.Admission{Record: known.Record, Journaled: known.Journaled}); settled {
				continue
			}
		}
		return r.sayWhenToAsk(r.known(), tooEarly)
	}
}

// refusal is what a call is told that is not to run, by what its record says: it
// is Absent, NotRun or Held.
type refusal func(dedupe.State) *answer

// always is a refusal that does not depend on the record.
func always(a *answer) refusal { return func(dedupe.State) *answer { return a } }

// lookup is a call that is answered by what is known of it, or of its prompt; refusal is what it is
// told where that is nothing.
type lookup struct {
	*Executor
	*call

	refusal refusal
}

// lookUp asks for the record of a call, and waits for the end of one that is running
// if there is a seat to wait in; an answer when there is no record that matters, or
// none to be had.
func (l lookup) lookUp(ctx context.Context, ask rules.Ask) (dedupe.Known, *answer) {
	known, looked, err := l.askAfter(ctx, ask)
	if !looked {
		l.stay.seats.full = cmp.Or(l.stay.seats.full, looksFull)
		return known, l.unlooked()
	}
	if err == nil && known.Record.State == dedupe.Claimed && l.stay.seats.wait(l.Waiting) {
		known, err = l.Dedupe.Await(ctx, l.Key, known)
	}
	if err != nil {
		l.log.cause = err
		if dedupe.IsCorrupt(err) {
			return known, l.result().Refused(l.spokenOf(tool.NonIdempotent).subject().Corrupt(), 0)
		}
		return known, l.unlooked()
	}
	if known.Record.State.Refused() {
		return known, recordedAs(l.call, known).unlessRepeatable(l.turnAway(l.refusal(known.Record.State), known))
	}
	l.rules.hear(nil, rules.Heard{Tally: known.Tally})
	return known, nil
}

// turnAway is what a call is told that is refused, by what its prompt has been told before.
// What the rules have left with their question is kept.
func (l lookup) turnAway(refused *answer, known dedupe.Known) *answer {
	if instead := l.rules.hear(refused, rules.Heard{Tally: known.Tally, Logs: known.Logs}); instead != nil {
		refused = instead
	}
	l.rules.end(refused, known.Record.State, l.Recorder.Panicked)
	l.rules.kept = true
	return refused
}

// askAfter asks once for what is known of a call; false when too many are asking. Who
// waits after it keeps nobody from looking.
func (l lookup) askAfter(ctx context.Context, ask rules.Ask) (known dedupe.Known, looked bool, err error) {
	var place limit.Place
	if !l.Looks.Acquire(&place) {
		return known, false, nil
	}
	defer place.Leave()
	known, err = l.Dedupe.Known(ctx, noteOf(l.call, ask))
	return known, true, err
}

func noteOf(c *call, ask rules.Ask) dedupe.Note {
	return dedupe.Note{Key: c.Key, Counter: ask.Draw.Counter, Logs: ask.Logs, Appends: ask.Appends}
}

// whileLooking is the deadline of the wait for what becomes of a call.
func whileLooking(c *call) deadline {
	if c.of.Route != nil {
		return resolved{c, c.of.Route}.deadline()
	}
	return deadline{c.start.Add(longestLook), errCallDeadline}
}

// unlooked answers a call of which the store could not be asked. Only to a tool
// without any effect can be refused what may have been done under its id.
func (l lookup) unlooked() *answer {
	r := l.spokenOf(tool.NonIdempotent)
	if r.effect() == tool.ReadOnly {
		return l.refusal(dedupe.NotRun)
	}
	if l.stay.seats.full != "" {
		return r.overloaded()
	}
	return l.result().Refused(r.subject().StoreDown(l.log.cause), explain.WhenStoreDown)
}

// told is what a call is answered that something recorded stands in the way of.
func (l lookup) told(ctx context.Context, r recorded, tooEarly time.Duration) *answer {
	a := r.sayWhenToAsk(r.answer(), tooEarly)
	if r.Verdict == dedupe.DuplicateEffect || r.Verdict == dedupe.EffectUnknown {
		return l.orderedAgain(ctx, a)
	}
	return a
}

// orderedAgain takes down a call that is refused because another one has had its effect,
// or may have had it. That costs the second of the two round trips that a call may have. The
// refusal stands, whether or not anybody could be told.
func (l lookup) orderedAgain(ctx context.Context, refused *answer) *answer {
	ask := l.rules.ask(refused)
	if len(ask.Appends) == 0 {
		return refused
	}
	known, err := l.Dedupe.Known(ctx, noteOf(l.call, ask))
	if err != nil || !known.Record.State.Refused() { // another one of its duplicates runs by now
		l.log.cause = err
		return refused
	}
	return l.turnAway(refused, known)
}
