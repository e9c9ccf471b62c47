package call

import (
	"crypto/rand"
	"slices"

	"github.com/sidecall/sidecall/budget"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/output"
	"github.com/sidecall/sidecall/tool"
)

// Output of an untrusted tool may be written to make a model do something. So a prompt
// that it has entered may not call tools that are declared sensitive. The prompt has a
// log for it, which is read by calls of sensitive tools and written by those of untrusted
// ones; no others have to do with it.

// taint is what a call has to do with it. The zero value is nothing.
type taint struct {
	// enters: what the tool says enters the prompt as untrusted output.
	enters bool
	// brings: its arguments have what may be untrusted output.
	brings bool
	// says: what the call is refused with has words of the tool.
	says bool
	// quotes: the response has untrusted output out of a record.
	quotes bool
	// refuses: the call is refused when such output has entered; place is where the
	// logbook has the log.
	refuses bool
	place   int
	// batch names the batch of the call, as it is sent now; empty for a call on its own.
	batch string
}

// entry is what the call leaves in the log. Those of a batch say of which, since its
// calls were written before any of its output was seen.
func (t *taint) entry() []byte { return append([]byte{1}, t.batch...) }

// taintedBy reports that one of the entries is not of the call's own batch.
func (t *taint) taintedBy(entries [][]byte) bool {
	own := t.entry()
	return slices.ContainsFunc(entries, func(e []byte) bool { return t.batch == "" || !slices.Equal(e, own) })
}

// keep is how many entries the log keeps. One says it all; but those of a batch must not
// displace what had entered before them.
func (t *taint) keep() int {
	if t.batch == "" {
		return 1
	}
	return dedupe.MaxLogEntries
}

// weighTogether tells the calls of a batch that they are one. One that fills the log by
// itself is taken for calls that were sent one after the other.
func weighTogether(calls []*call, taints bool) {
	if !taints || len(calls) < 2 || len(calls) >= dedupe.MaxLogEntries {
		return
	}
	batch := rand.Text()[:12]
	for _, c := range calls {
		c.taint.batch = batch
	}
}

// weigh finds out what the call has to do with untrusted output.
func (c *call) weigh(profile catalog.Profile) {
	if !c.snapshot.Limits.Taints || c.route == nil || c.ValidateOnly || c.Key.Conversation == "" {
		return
	}
	c.taint.enters = c.snapshot.Taints(c.route)
	if c.route.Tool.Policy.RefuseTainted && !profile.AllowTainted {
		c.taint.refuses, c.taint.place = true, c.book.ask(logOf("taint/", c.Prompt))
	}
}

// tainted refuses an admitted call of a sensitive tool after untrusted output; nil
// lets it go on.
func (e *Executor) tainted(c *call) *ending {
	if !c.taint.refuses || !c.taint.brings && !c.taint.taintedBy(c.book.entries(c.taint.place)) && !e.unwritten.has(c.prompt()) {
		return nil
	}
	c.rule = "taint"
	end := c.notRun(c.subject().Tainted(), &tool.Failure{})
	return &end
}

// stain takes down that untrusted output enters the prompt, in the settlement of the
// call. That of a call that is not recorded is only known here.
func (e *Executor) stain(c *call, end *ending) {
	switch {
	case !c.taint.enters || c.tried.sent == 0 && end.state != dedupe.Done:
		c.taint.enters = false // nothing came of the tool
	case c.claim == nil:
		e.unwritten.add(c.prompt())
	default:
		c.enterTaint()
	}
}

// quote takes down that the response tells what was recorded, if that may have a tool's
// words that are not trusted: those of its own tool, or of the one by which somebody
// found out that the call had happened. Whose words a tool's are that is gone nobody knows.
func (c *call) quote(recorded *response) {
	if !c.snapshot.Limits.Taints || c.Key.Conversation == "" {
		return
	}
	with := recorded.GetResolution().GetVerifiedWith()
	c.taint.quotes = c.foreign(c.Tool) || refers(c.Arguments) && c.foreign(output.ToolName) || with != "" && c.foreign(with)
}

// bring takes down that arguments come out of outputs: as if they had been read. Whose
// words are kept nobody knows, as of the pages of read_output.
func (c *call) bring() {
	if c.snapshot.Limits.Taints && !c.ValidateOnly && c.Key.Conversation != "" && c.foreign(output.ToolName) {
		c.taint.brings, c.taint.enters = true, true
	}
}

func (c *call) foreign(toolName string) bool {
	route, known := c.snapshot.Lookup(toolName)
	return !known || c.snapshot.Taints(route)
}

// stainAgain takes down that untrusted output enters with what was recorded, perhaps in
// another prompt than at first. One look writes nothing, so that is only known here.
func (e *Executor) stainAgain(c *call) {
	if c.taint.quotes {
		e.unwritten.add(c.prompt())
	}
}

// stainToo takes down that what is told of earlier attempts has untrusted output, perhaps
// of another prompt. A refusal has paid its one look, so that is only known here.
func (e *Executor) stainToo(c *call) {
	switch {
	case !c.snapshot.Limits.Taints || c.rule == "taint": // for which it has entered already
	case c.claim == nil:
		e.unwritten.add(c.prompt())
	case !c.taint.enters:
		c.taint.enters = true
		c.enterTaint()
	}
}

func (c *call) enterTaint() {
	c.book.write(dedupe.Append{Log: logOf("taint/", c.Prompt), Entry: c.taint.entry(), Keep: c.taint.keep()})
}

// stained is told how the settlement went: what is not in the store is known here.
func (e *Executor) stained(c *call, verdict dedupe.SettleVerdict, err error) {
	if c.taint.enters && (err != nil || verdict != dedupe.Settled) {
		e.unwritten.add(c.prompt())
	}
}

func (c *call) prompt() promptKey {
	return promptKey{c.Key.Tenant, c.Key.Conversation, budget.Counter(c.Prompt)}
}
