package call

import (
	"runtime/debug"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failures"
	"github.com/sidecall/sidecall/tool"
)

// recount is what a call knows of the attempts before it, to be told when it fails.
// The zero value is that of a call that is told nothing.
type recount struct {
	how *catalog.Recovery // nil: it is told nothing
	// operation and target are what it is about; args are its arguments without what
	// is never shown, nil where they are of no account.
	operation, target string
	args              map[string]any
	// log is that of the attempts at it.
	log string
	// earlier and recent are the places of the two logs in the book.
	earlier, recent int
	// written is what a refused call leaves, before the logs are read.
	written failures.Advice
}

// recall asks for the attempts before a call that is about to be claimed.
func (c *call) recall() {
	if how := c.told(); how != nil {
		args := c.route.Schema.Redacted(c.written())
		c.past = recount{how: how, operation: c.route.Tool.Name, args: args, target: how.Targeting.Of(args)}
		c.past.log = failures.LogOf(c.past.operation, c.past.target)
		c.past.ask(&c.book)
	}
}

// strangers is the log of all calls of tools that there are not, of which a model can
// make up any number.
var strangers = failures.LogOf("", "")

// told returns how the call is told of its failure; nil when it is not.
func (c *call) told() *catalog.Recovery {
	how := c.snapshot.Advice.Of(c.route)
	if how == nil || c.Key.Conversation == "" || c.ValidateOnly {
		return nil
	}
	if profile, ok := c.profile(); !ok || profile.Untold {
		return nil
	}
	return how
}

func (r *recount) ask(book *logbook) {
	r.earlier = book.ask(r.log)
	r.recent = book.ask(failures.RecentLog)
}

// foresee prepares a refusal for the one look that it pays: it asks for the attempts
// before, and leaves this one behind them. A call for which there is no room is not
// told: what it costs would be more of what there is too much of. What is wrong with
// the program's part of a request no model can do anything about.
func (c *call) foresee(refusal refusal) {
	if c.seats.full != "" || c.Impossible != nil || c.past.how != nil {
		return
	}
	how := c.told()
	if how == nil {
		return
	}
	a := refusal(dedupe.Absent)
	if !worthTelling(a) {
		return
	}
	c.past = recount{how: how, operation: tool.Shorten(c.Tool, maxToolName)}
	if c.args != nil {
		// Of a call that was refused for another reason, or of a tool that is not there,
		// nobody knows which of its arguments are secret, and they do not matter.
		c.past.args = c.route.Schema.Redacted(c.written())
		c.past.target = how.Targeting.Of(c.past.args)
	}
	if c.past.log = strangers; c.route != nil {
		c.past.log = failures.LogOf(c.past.operation, c.past.target)
	}
	c.past.ask(&c.book)
	c.past.written = c.snapshot.Advice.Advisor.Foresee(c.mishap(a))
	c.leaveBehind(c.past.written)
}

// leaveBehind writes what later failures will know of this one.
func (c *call) leaveBehind(advice failures.Advice) {
	if advice.Entry != nil {
		c.book.write(dedupe.Append{Log: c.past.log, Entry: advice.Entry, Keep: failures.KeptAttempts})
	}
	if advice.Recent != nil {
		c.book.write(dedupe.Append{Log: failures.RecentLog, Entry: advice.Recent, Keep: failures.KeptRecent})
	}
}

// worthTelling reports responses that get a block: errors, but for those of the
// sidecar itself, of which no other call helps.
func worthTelling(a *answer) bool {
	switch a.Code() {
	case "", tool.CodeInternal, tool.CodeStoreUnavailable, tool.CodeBudgetExceeded, tool.CodeLoopDetected,
		tool.CodeCancelled, tool.CodeIDReused, tool.CodeInProgress:
		return false
	default:
		return !a.Replayed
	}
}

// advise adds to a failed call's response what was tried before it, and what was not.
// A call that has been admitted leaves itself for those after it. A bug in this must
// not cost the call its result.
func (e *Executor) advise(c *call, a *answer) {
	if c.past.how == nil || !worthTelling(a) {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			e.Recorder.Panicked(p, debug.Stack())
		}
	}()
	advice := c.snapshot.Advice.Advisor.Explain(c.mishap(a))
	a.Context = advice.Context
	if advice.Untrusted {
		e.stainToo(c)
	}
	if c.claim != nil {
		c.leaveBehind(advice)
		c.past.how = nil // once, even where a bug makes it settle again
	}
}

// advised is a refusal with what was tried before it.
func (e *Executor) advised(c *call, refusal refusal) refusal {
	return func(recorded dedupe.State) *answer {
		a := refusal(recorded)
		e.advise(c, a)
		return a
	}
}
