package call

import (
	"runtime/debug"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/approval"
	"github.com/sidecall/sidecall/internal/rules/budget"
	"github.com/sidecall/sidecall/internal/rules/history"
	"github.com/sidecall/sidecall/internal/rules/loop"
	"github.com/sidecall/sidecall/internal/rules/taint"
)

// makers are the rules that calls are held to, in the order in which they are asked.
func makers(memory *taint.Memory) []rules.Maker {
	return []rules.Maker{loop.New, budget.New, history.New, taint.New(memory), approval.New}
}

// ruleset are the rules that one call is held to.
type ruleset struct {
	call    *call
	all     []rules.Rule
	backing [5]rules.Rule // of rules
	// until is when a hold would be over that a rule asks for now, as far as the store's clock was
	// told with the claim; zero before that.
	until time.Time
	// ended: they have been told how the call ends. kept: what they have left so far is.
	ended, kept bool
}

// bind holds a call to the rules.
func (e *Executor) bind(c *call) {
	c.of.Start = c.start
	c.rules.call, c.rules.all = c, c.rules.backing[:0]
	makers := e.makers
	if c.HoldOnly { // what else refuses the call does so when it is made
		makers = []rules.Maker{approval.New}
	}
	for _, maker := range makers {
		if r := maker(&c.of); r != nil {
			c.rules.all = append(c.rules.all, r)
		}
	}
}

// now is how far the call has come, to an answer perhaps.
func (s *ruleset) now(a *answer) *rules.Now {
	now := &s.call.now
	now.Moment = rules.Moment{At: time.Now(), Answer: a}
	return now
}

// check refuses the call by what it is alone; nil lets it go on.
func (s *ruleset) check() *answer {
	if len(s.all) == 0 {
		return nil
	}
	now := s.now(nil)
	for _, r := range s.all {
		if refusal := r.Check(now); refusal != nil {
			return s.refuse(refusal, nil)
		}
	}
	return nil
}

// ask is what the rules want to know of the prompt; refused is the refusal for which it is
// looked at only, nil for a call that is to be made.
func (s *ruleset) ask(refused *answer) (ask rules.Ask) {
	if len(s.all) == 0 {
		return ask
	}
	now := s.now(refused)
	for _, r := range s.all {
		r.Ask(now, &ask)
	}
	return ask
}

// hear tells the rules what came back. It returns the refusal of the first that refuses the
// call, or, of a call that is refused anyway, has a better reason to; nil when none does.
func (s *ruleset) hear(refused *answer, heard rules.Heard) (instead *answer) {
	if len(s.all) == 0 {
		return nil
	}
	now := s.now(refused)
	for _, r := range s.all {
		if refusal := r.Hear(now, &heard); refusal != nil && instead == nil {
			instead = s.refuse(refusal, refused)
		}
	}
	return instead
}

// refuse is the refusal of a rule. What was wrong with the call anyway remains worth knowing.
func (s *ruleset) refuse(by *rules.Refusal, anyway *answer) *answer {
	s.call.log.by = ruling{by.Name, by.Error.Code}
	if by.Hold != "" {
		return resolved{s.call, s.call.of.Route}.asking(explain.Hold{Why: by.Hold, Until: s.until})
	}
	a := s.call.result().Refused(by.Error, 0)
	if a.Loop = by.Loop; anyway != nil {
		a.Violations, a.Earlier, a.Alternatives = anyway.Violations, anyway.Earlier, anyway.Alternatives
		a.SuggestedTool, a.SuggestedArguments = anyway.SuggestedTool, anyway.SuggestedArguments
	}
	return a
}

// end tells the rules how the call ends, who add to its answer. A bug in one must not cost
// the call its result: it is told to panicked.
func (s *ruleset) end(a *answer, state dedupe.State, panicked func(p any, stack []byte)) {
	if s.ended || len(s.all) == 0 {
		return
	}
	s.ended = true
	now := s.now(a)
	now.Done, now.Released = state == dedupe.Done, state == dedupe.NotRun || state == dedupe.Held
	for _, r := range s.all {
		func() {
			defer func() {
				if p := recover(); p != nil {
					panicked(p, debug.Stack())
				}
			}()
			r.End(now)
		}()
	}
}

// leave gives the response what stands beside the answer, and leaves what is left behind.
func (s *ruleset) leave(a *answer, res *response, leaves *rules.Leaves) {
	if len(s.all) == 0 {
		return
	}
	now := s.now(a)
	for _, r := range s.all {
		r.Leave(now, res, leaves)
	}
}

// remember tells the rules whether what they have left is kept.
func (s *ruleset) remember(kept bool) {
	for _, r := range s.all {
		r.Kept(kept)
	}
}

// respond makes the response of a call that settles nothing.
func (e *Executor) respond(c *call, a *answer) *response {
	c.rules.end(a, dedupe.Absent, e.Recorder.Panicked)
	res, _ := c.render(a)
	c.rules.leave(a, res, &rules.Leaves{})
	c.rules.remember(c.rules.kept)
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
		return calls[i].Nameless == nil && calls[i].Impossible == nil && !calls[i].runsNothing()
	})
}
