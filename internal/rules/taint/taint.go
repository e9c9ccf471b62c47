// Package taint has the rule that what an untrusted tool has said must not make a model do
// something: a prompt that its output has entered may not call tools that are declared
// sensitive. The prompt has a log for it, which is read by calls of sensitive tools and
// written by those of untrusted ones; no others have to do with it.
package taint

import (
	"crypto/rand"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/rules"
)

// rule is what one call has to do with it.
type rule struct {
	rules.Idle

	call   *rules.Call
	memory *Memory
	// says: what the tool says enters the prompt as untrusted output.
	says bool
	// sensitive: the call is refused when such output has entered; place is where the
	// answer of the store has the log, and refused says that it was.
	sensitive bool
	place     int
	refused   bool
	// entered: the call has brought such output into the prompt. logged: so its log says.
	entered, logged bool
}

// New returns the rules.Maker of the taint; memory has what the store does not know.
func New(memory *Memory) rules.Maker {
	return func(c *rules.Call) rules.Rule {
		if !c.Snapshot.Limits.Taints || c.Key.Conversation == "" {
			return nil
		}
		r := &rule{call: c, memory: memory}
		if c.Route != nil && !c.UnknownProfile {
			r.says = c.Snapshot.Taints(c.Route)
			r.sensitive = c.Route.Tool.Policy.RefuseTainted && !c.Profile.AllowTainted
		}
		return r
	}
}

// Together tells the calls of a batch that they are one. One that fills the log by itself
// is taken for calls that were sent one after the other.
func Together(calls []*rules.Call) {
	if len(calls) < 2 || len(calls) >= dedupe.MaxLogEntries || !calls[0].Snapshot.Limits.Taints {
		return
	}
	name := rand.Text()[:12]
	for _, c := range calls {
		c.Batch.Name = name
	}
}

// Ask implements rules.Rule. The words of a schema that an untrusted tool declares itself
// are its output too.
func (r *rule) Ask(now *rules.Now, ask *rules.Ask) {
	if r.sensitive {
		r.place = ask.Log(r.log())
	}
	if now.Answer != nil && now.Answer.Foreign && !r.logged {
		r.entered, r.logged = true, true
		ask.Append(r.append())
	}
}

// Hear implements rules.Rule. What arguments refer to has been read by the model, as far as
// anybody knows.
func (r *rule) Hear(now *rules.Now, heard *rules.Heard) *rules.Refusal {
	switch {
	case !r.sensitive || !now.Claimed && !heard.Unknown:
		return nil
	case heard.Unknown, r.borrows(now), r.taintedBy(heard.Entries(r.place)), r.memory.has(promptOf(r.call)):
	default:
		return nil
	}
	r.refused = true
	about := explain.Subject{Route: r.call.Route, MayHaveRun: now.MayHaveRun}
	return &rules.Refusal{Error: about.Tainted(), Name: "taint"}
}

// End implements rules.Rule.
func (r *rule) End(now *rules.Now) {
	a := now.Answer
	came := now.Sent > 0 || now.Done // of the tool
	switch {
	case r.refused: // for what has entered already
	case a.Quotes != nil && r.quotes(a.Quotes), a.Foreign, came && (r.says || r.borrows(now)):
		r.entered = true
	}
}

// Leave implements rules.Rule.
func (r *rule) Leave(now *rules.Now, _ *result.Response, leaves *rules.Leaves) {
	if now.Claimed && r.entered && !r.logged {
		r.logged = true
		leaves.Append(r.append())
	}
}

// Kept implements rules.Rule: what is not in the store is known here.
func (r *rule) Kept(kept bool) {
	if r.entered && !(r.logged && kept) {
		r.memory.add(promptOf(r.call))
	}
}

func (r *rule) log() string { return rules.LogOf("taint/", r.call.Prompt) }

// append is what the call leaves in the log. One entry says it all; but those of a batch
// must not displace what had entered before them.
func (r *rule) append() dedupe.Append {
	a := dedupe.Append{Log: r.log(), Entry: r.entry(), Keep: 1}
	if r.call.Batch.Name != "" {
		a.Keep = dedupe.MaxLogEntries
	}
	return a
}

// entry says of which batch the call is, since its calls were written before any of its
// output was seen.
func (r *rule) entry() []byte { return append([]byte{1}, r.call.Batch.Name...) }

// taintedBy reports that one of the entries is not of the call's own batch.
func (r *rule) taintedBy(entries [][]byte) bool {
	own := r.entry()
	return slices.ContainsFunc(entries, func(e []byte) bool { return r.call.Batch.Name == "" || !slices.Equal(e, own) })
}

// borrows reports that arguments come out of outputs: as if they had been read. Whose words
// are kept nobody knows, as of the pages of read_output.
func (r *rule) borrows(now *rules.Now) bool { return now.Borrowed && r.foreign(output.ToolName) }

// quotes reports that a recorded response may have a tool's words that are not trusted:
// those of its own tool, or of the one by which somebody found out that the call had
// happened. Whose words a tool's are that is gone nobody knows.
func (r *rule) quotes(recorded *result.Response) bool {
	with := recorded.GetResolution().GetVerifiedWith()
	return r.foreign(r.call.Tool) || output.Refers(r.call.Arguments) && r.foreign(output.ToolName) || with != "" && r.foreign(with)
}

func (r *rule) foreign(toolName string) bool {
	route, known := r.call.Snapshot.Lookup(toolName)
	return !known || r.call.Snapshot.Taints(route)
}
