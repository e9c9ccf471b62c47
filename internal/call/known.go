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
	if c.ValidateOnly || c.Nameless != nil { // of the latter there can be no record
		return refusal(dedupe.Absent)
	}
	ask := c.held.ask(refusal(dedupe.Absent))
	c.leave()
	ctx, cancel := whileLooking(c).bound(ctx)
	defer cancel()
	for looked := false; ; looked = true {
		known, answer := e.lookUp(ctx, c, refusal, ask)
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

// lookUp asks for the record of a call, and waits for the end of one that is running
// if there is a seat to wait in; an answer when there is no record that matters, or
// none to be had.
func (e *Executor) lookUp(ctx context.Context, c *call, refusal refusal, ask rules.Ask) (dedupe.Known, *answer) {
	known, looked, err := e.askAfter(ctx, c, ask)
	if !looked {
		c.stay.seats.full = cmp.Or(c.stay.seats.full, looksFull)
		return known, e.unlooked(c, refusal)
	}
	if err == nil && known.Record.State == dedupe.Claimed && c.stay.seats.wait(e.Waiting) {
		known, err = e.Dedupe.Await(ctx, c.Key, known)
	}
	if err != nil {
		c.log.cause = err
		if dedupe.IsCorrupt(err) {
			return known, c.result().Refused(c.spokenOf(tool.NonIdempotent).subject().Corrupt(), 0)
		}
		return known, e.unlooked(c, refusal)
	}
	if known.Record.Refused() {
		return known, recordedAs(c, known).unlessRepeatable(e.turnAway(c, refusal(known.Record.State), known))
	}
	c.held.hear(nil, rules.Heard{Tally: known.Tally})
	return known, nil
}

// turnAway is what a call is told that is refused, by what its prompt has been told before.
// What the rules have left with their question is kept.
func (e *Executor) turnAway(c *call, refused *answer, known dedupe.Known) *answer {
	if instead := c.held.hear(refused, rules.Heard{Tally: known.Tally, Logs: known.Logs}); instead != nil {
		refused = instead
	}
	c.held.end(refused, known.Record.State, e.Recorder.Panicked)
	c.held.kept = true
	return refused
}

// askAfter asks once for what is known of a call; false when too many are asking. Who
// waits after it keeps nobody from looking.
func (e *Executor) askAfter(ctx context.Context, c *call, ask rules.Ask) (known dedupe.Known, looked bool, err error) {
	var place limit.Place
	if !e.Looks.Acquire(&place) {
		return known, false, nil
	}
	defer place.Leave()
	known, err = e.Dedupe.Known(ctx, noteOf(c, ask))
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
func (e *Executor) unlooked(c *call, refusal refusal) *answer {
	r := c.spokenOf(tool.NonIdempotent)
	if r.effect() == tool.ReadOnly {
		return refusal(dedupe.NotRun)
	}
	if c.stay.seats.full != "" {
		return r.overloaded()
	}
	return c.result().Refused(r.subject().StoreDown(c.log.cause), explain.WhenStoreDown)
}
