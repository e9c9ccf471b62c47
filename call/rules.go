package call

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/budget"
	"github.com/sidecall/sidecall/internal/rules/history"
	"github.com/sidecall/sidecall/internal/rules/loop"
	"github.com/sidecall/sidecall/internal/rules/taint"
	"github.com/sidecall/sidecall/tool"
)

// makers are the rules that calls are held to, in the order in which they are asked.
func makers(memory *taint.Memory) []rules.Maker {
	return []rules.Maker{loop.New, budget.New, history.New, taint.New(memory)}
}

// held are the rules that one call is held to.
type held struct {
	rules []rules.Rule
	room  [4]rules.Rule // of rules
	// ended: they have been told how the call ends. kept: what they have left so far is.
	ended, kept bool
}

// hold holds a call to the rules.
func (e *Executor) hold(c *call) {
	c.of.Start = c.start
	c.held.rules = c.held.room[:0]
	for _, make := range e.makers {
		if r := make(&c.of); r != nil {
			c.held.rules = append(c.held.rules, r)
		}
	}
}

// now is how far the call has come, to an answer perhaps.
func (c *call) now(a *answer) *rules.Now {
	now := &rules.Now{
		Args: c.args, Written: c.written(), Print: c.print, Checked: c.canonical != nil,
		Borrowed: c.refs != nil && c.refs.resolved != nil, Allowed: c.effectKey.Allow, Claimed: c.claim != nil,
		Sent: c.tried.sent, Failure: c.tried.reading.Failure, Faultless: c.Impossible != nil,
		Answer: a, At: time.Now(),
	}
	if c.route != nil {
		now.MayHaveRun, now.EarlierMayHaveRun = c.mayHaveRun(), c.earlierMayHaveRun()
	}
	return now
}

// allowed refuses a call by what it is alone; nil lets it go on.
func (c *call) allowed() *answer {
	now := c.now(nil)
	for _, r := range c.held.rules {
		if refusal := r.Check(now); refusal != nil {
			return c.refuse(refusal, nil)
		}
	}
	return nil
}

// ask is what the rules want to know of the prompt; refused is the refusal for which it is
// looked at only, nil for a call that is to be made.
func (c *call) ask(refused *answer) (ask rules.Ask) {
	if len(c.held.rules) == 0 {
		return ask
	}
	now := c.now(refused)
	for _, r := range c.held.rules {
		r.Ask(now, &ask)
	}
	return ask
}

// hear tells the rules what came back. It returns the refusal of the first that refuses the
// call, or, of a call that is refused anyway, has a better reason to; nil when none does.
func (c *call) hear(refused *answer, heard rules.Heard) (instead *answer) {
	if len(c.held.rules) == 0 {
		return nil
	}
	now := c.now(refused)
	for _, r := range c.held.rules {
		if refusal := r.Hear(now, &heard); refusal != nil && instead == nil {
			instead = c.refuse(refusal, refused)
		}
	}
	return instead
}

// refuse is the refusal of a rule. What was wrong with the call anyway remains worth knowing.
func (c *call) refuse(by *rules.Refusal, anyway *answer) *answer {
	c.rule = by.Name
	a := c.result().Refused(by.Error, 0)
	if a.Loop = by.Loop; anyway != nil {
		a.Violations, a.Earlier, a.Alternatives = anyway.Violations, anyway.Earlier, anyway.Alternatives
		a.SuggestedTool, a.SuggestedArguments = anyway.SuggestedTool, anyway.SuggestedArguments
	}
	return a
}

// end tells the rules how the call ends, who add to its answer. A bug in one must not cost
// the call its result.
func (e *Executor) end(c *call, a *answer, state dedupe.State) {
	if c.held.ended || len(c.held.rules) == 0 {
		return
	}
	c.held.ended = true
	now := c.now(a)
	now.Done, now.Released = state == dedupe.Done, state == dedupe.NotRun
	for _, r := range c.held.rules {
		func() {
			defer func() {
				if p := recover(); p != nil {
					e.Recorder.Panicked(p, debug.Stack())
				}
			}()
			r.End(now)
		}()
	}
}

// remember tells the rules whether what they have left is kept.
func (c *call) remember(kept bool) {
	for _, r := range c.held.rules {
		r.Kept(kept)
	}
}

// respond makes the response of a call that settles nothing.
func (e *Executor) respond(c *call, a *answer) *response {
	e.end(c, a, dedupe.Absent)
	res, _ := c.render(a, &rules.Leaves{})
	c.remember(c.held.kept)
	return res
}

// together tells the calls of a batch of each other.
func together(calls []*call) {
	of := make([]*rules.Call, len(calls))
	for i, c := range calls {
		of[i] = &c.of
	}
	taint.Together(of)
	loop.Beside(of, func(i int) bool {
		return calls[i].Nameless == nil && calls[i].Impossible == nil && !calls[i].ValidateOnly
	})
}

// codeRules are the rules of which the code tells, when nothing was sent. Where a
// code has several, whoever refuses a call says which in call.rule.
var codeRules = map[tool.Code]string{
	tool.CodePermissionDenied: "profile",
	tool.CodeIDReused:         "id_reused",
	tool.CodeCircuitOpen:      "breaker",
	tool.CodeRateLimited:      "rate_limit",
	tool.CodeOverloaded:       "overloaded",
	tool.CodeStoreUnavailable: "store",
	tool.CodeDuplicateEffect:  "effect_duplicate",
	"APPROVAL_REQUIRED":       "approval",
}

// ruled are the codes that several rules refuse with.
var ruled = []tool.Code{tool.CodeLoopDetected, tool.CodePermissionDenied, tool.CodeBudgetExceeded, tool.CodeInvalidArgs}

// refusedBy is the rule by which a call was refused before anything was sent, for
// telemetry; empty when it was not.
func (c *call) refusedBy(res *response) string {
	code := tool.Code(res.GetError().GetCode())
	switch {
	case c.tried.sent > 0 || res.GetReplayed():
		return ""
	case c.rule != "" && slices.Contains(ruled, code):
		return c.rule
	default: // whatever was about to refuse it
		return codeRules[code]
	}
}
