package call

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/guard"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/tool"
)

// loop is what a call has to do with the loop guard. The zero value is that of a call
// that nobody watches.
type loop struct {
	guard *guard.Guard
	// name is that of the prompt's log, and place where the logbook has it.
	name  string
	place int
	// batch is what the calls of one batch have in common; 0 for a call on its own.
	batch guard.Hash
	// beside is what the calls of its batch say of it.
	beside guard.Verdict
	// seen is the call as the guard sees it; without an ID until somebody asks.
	seen guard.Call
	// past is the log without the call, from the claim.
	past guard.Log
	// noted: what came of the call is in the logbook.
	noted bool
	// finding is what the guard says of the call; of Pass when that is nothing.
	finding guard.Verdict
}

// watch has the call watched by the guard of its profile. What has no conversation
// has no log.
func (c *call) watch(profile catalog.Profile) {
	if profile.Guard == nil || c.Key.Conversation == "" || c.ValidateOnly {
		return
	}
	c.loop.guard, c.loop.name = profile.Guard, logOf("loop/", c.Prompt)
	c.loop.place = c.book.ask(c.loop.name)
}

// watchStranger has a call of a profile that there is not watched as one that names none:
// it is refused whatever it is, and a loop of such calls would have no end.
func (c *call) watchStranger() {
	if usual, ok := c.snapshot.Profiles.Find("", c.Offered...); ok {
		c.watch(usual)
	}
}

// seen is the call as the guard sees it, once and for all.
func (c *call) seen() guard.Call {
	if c.loop.seen.ID == 0 {
		c.loop.seen = c.unread()
		if c.canonical != nil {
			c.loop.seen.Same = guard.Cut(c.print)
		} else {
			c.loop.seen.Same = guard.Sum([]byte(c.Tool + "\x00" + c.Arguments))
		}
	}
	return c.loop.seen
}

// unread is the call as the guard sees it, without its arguments.
func (c *call) unread() guard.Call {
	seen := guard.Call{
		Tool: c.Tool, ID: guard.Sum([]byte(c.Key.Turn + "\x00" + c.Key.ID)), Batch: c.together(), Start: guard.At(c.start),
	}
	if c.route != nil {
		seen.Effect, seen.Polling = c.effect(), c.route.Tool.Policy.Polling
	}
	if seen.Effect == tool.ReadOnly {
		seen.Words = guard.WordsOf(c.args)
	}
	return seen
}

// together is what the call has in common with those that the model made in the same
// message: whoever does not send them as a batch says which message that is.
func (c *call) together() guard.Hash {
	if c.Message != "" {
		return guard.Sum([]byte("message\x00" + c.Message))
	}
	return c.loop.batch
}

// repeats refuses a call that another one of its batch has made already, unless somebody
// has decided that it is to be made.
func (c *call) repeats() *answer {
	if c.effectKey.Allow {
		c.loop.beside = guard.Verdict{}
	}
	if !c.loop.beside.Level.Refused() {
		return nil
	}
	c.loop.finding = c.loop.beside
	return c.looping(nil)
}

// turn judges the call by what was done before it; nil lets it go on. One that may
// have run under this id, and can only be repeated under it, is let through: it may
// be how somebody finds out. So is one that somebody has decided to make once more.
func (c *call) turn() *ending {
	if c.loop.guard == nil || c.claim == nil {
		return nil
	}
	c.loop.past = guard.Read(c.book.entries(c.loop.place))
	this := c.seen()
	verdict := c.loop.guard.Before(c.loop.past, this)
	if !verdict.Level.Refused() || c.effectKey.Allow || c.earlierMayHaveRun() && !c.loop.past.Refused(this.ID) {
		return nil
	}
	c.loop.finding = verdict
	c.enter(this.Refuse(verdict, guard.At(time.Now())))
	return &ending{answer: c.looping(nil), state: dedupe.NotRun}
}

// enter leaves an entry in the log of the prompt.
func (c *call) enter(e guard.Entry) {
	c.loop.noted = true
	c.book.write(dedupe.Append{Log: c.loop.name, Entry: e.AppendTo(nil), Keep: guard.LogEntries})
}

// answered takes down what a tool has answered, and returns what is to be said to the
// model beside it; empty for nothing.
func (c *call) answered(reading *interpret.Reading) (nudge string) {
	if c.loop.guard == nil || c.claim == nil {
		return ""
	}
	c.judge(guard.Entry{
		Call: c.seen(), Kind: guard.OK, Outcome: outcomeOf(&reading.Reply), Empty: reading.Outcome == interpret.Empty, End: guard.At(time.Now()),
	})
	return c.nudge()
}

// judge enters what came of the call, and finds out whether it repeats anything.
func (c *call) judge(e guard.Entry) {
	c.enter(e)
	c.loop.finding = c.loop.guard.After(c.loop.past, e)
	if c.loop.beside.Level > c.loop.finding.Level {
		c.loop.finding = c.loop.beside
	}
}

// remember takes down how the call has ended, unless its answer is in the log already,
// and adds what the guard has to say of it.
func (c *call) remember(end *ending) {
	if c.loop.guard == nil || c.claim == nil {
		return
	}
	a := end.answer
	switch {
	case c.loop.noted:
	case a.Error == nil: // a look has found that it happened
		a.Nudge = c.answered(a.Reading)
	case endsOfItself(a.Code()) && !c.passes(a):
		c.judge(c.failure(a, guard.Failed))
		c.nudgeBehind(a)
	}
	a.Loop = c.loop.finding
}

// nudgeBehind adds to the hint of a failed call that it repeats others.
func (c *call) nudgeBehind(a *answer) {
	if nudge := c.nudge(); nudge != "" {
		a.Hints = append(a.Hints, nudge)
	}
}

// passes reports that a call has failed because an upstream is away: that is the business
// of a breaker, and over when the upstream is back. What may have happened is not.
func (c *call) passes(a *answer) bool {
	return a.Code().Class() == tool.Transient && !c.mayHaveRun()
}

// endsOfItself reports errors that a model can go round in circles about. The others
// are of who called, and of the sidecar.
func endsOfItself(code tool.Code) bool {
	return code != tool.CodeCancelled && code != tool.CodeInternal && code != tool.CodeIDReused && code != tool.CodeInProgress
}

// failure is the entry of a call that failed.
func (c *call) failure(a *answer, kind guard.Kind) guard.Entry {
	return guard.Entry{Call: c.seen(), Kind: kind, End: guard.At(time.Now()), Outcome: guard.Failure(*a.Error, c.args)}
}

// turnAway takes down a call that is to be refused before it is claimed, if its record
// does not know better: for what is wrong with it, not for what there is no room for.
func (c *call) turnAway(refused *answer) {
	code := refused.Code()
	kind := guard.Failed
	switch code {
	case tool.CodeInvalidArgs:
		kind = guard.Invalid
	case tool.CodeUnknownTool:
		kind = guard.UnknownTool
	default:
		if code.Class() != tool.Hard || !endsOfItself(code) {
			return
		}
	}
	if c.loop.finding.Level == guard.Pass { // a repetition in a batch is none of the log's
		c.enter(c.failure(refused, kind))
	}
}

// turnedAway judges a call that is refused, now that its log has been read.
func (c *call) turnedAway(refused *answer) *answer {
	if c.loop.noted {
		c.loop.finding = c.loop.guard.TurnedAway(guard.Read(c.book.entries(c.loop.place)))
		if c.loop.finding.Level.Refused() {
			return c.looping(refused)
		}
		c.nudgeBehind(refused)
	}
	refused.Loop = c.loop.finding
	return refused
}

// looping refuses the call for what the guard has found. instead is the refusal that
// it would have been; nil when it would have been made.
func (c *call) looping(instead *answer) *answer {
	a := c.result().Refused(explain.Loop(c.loop.finding), 0)
	if instead != nil { // what is wrong with it remains worth knowing
		a.Violations, a.Earlier, a.Alternatives = instead.Violations, instead.Earlier, instead.Alternatives
		a.SuggestedTool, a.SuggestedArguments = instead.SuggestedTool, instead.SuggestedArguments
	}
	a.Loop = c.loop.finding
	return a
}

// nudge is what a model is told of a call that repeats others; empty for nothing.
func (c *call) nudge() string {
	if c.loop.finding.Level != guard.Nudge {
		return ""
	}
	return explain.Nudge(c.loop.finding)
}

// outcomeOf is the hash of all that a tool has answered, before any of it is cut.
func outcomeOf(reply *backend.Reply) guard.Hash {
	if len(reply.Structured)+len(reply.Blocks) == 0 && reply.Binary == "" {
		return guard.Sum(reply.Text)
	}
	sum := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		sum.Write(size[:])
		sum.Write(b)
	}
	part(reply.Text)
	part(reply.Structured)
	part([]byte(reply.Binary))
	for i := range reply.Blocks {
		b := &reply.Blocks[i]
		part([]byte(b.Type))
		part([]byte(b.MIMEType))
		part(b.Data)
		part([]byte(b.Text))
		part([]byte(b.URI))
	}
	if reply.Binary != "" { // its content was not read: two of a size are not known to be the same
		part([]byte(rand.Text()))
	}
	return guard.Cut([sha256.Size]byte(sum.Sum(nil)))
}
