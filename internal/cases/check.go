package cases

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/net/http/httpguts"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// checker finds what cannot be in a file of cases, before anything runs.
type checker struct {
	doc   *config.Document[file]
	tools targets
	// commands says that there is a program to stand in for them.
	commands bool
	found    config.Problems
}

// check holds cases against the config that they are to run on. The error is
// config.Problems: everything that is wrong, by position. commands says that there
// is a program to stand in for commands.
func check(doc *config.Document[file], cfg *config.Config, commands bool) error {
	c := &checker{doc: doc, tools: targets{cfg}, commands: commands}
	first := map[string]int{}
	for i := range doc.Value.Cases {
		one := &doc.Value.Cases[i]
		at := []string{"cases", strconv.Itoa(i)}
		if before, twice := first[one.Name]; twice {
			c.wrong(append(at, "case"), "the name of case %d too; give each another", before+1)
		} else {
			first[one.Name] = i
		}
		c.oneCase(one, at)
	}
	if len(c.found) == 0 {
		return nil
	}
	config.SortProblems(c.found)
	return c.found
}

// wrong notes a problem at a place of the file.
func (c *checker) wrong(path []string, format string, args ...any) {
	p := c.doc.Where(path...)
	p.Message = fmt.Sprintf(format, args...)
	c.found = append(c.found, p)
}

func (c *checker) oneCase(one *oneCase, at []string) {
	if one.Profile != "" {
		if _, ok := c.tools.cfg.Profile(one.Profile); !ok {
			c.wrong(below(at, "profile"), "there is no profile %q%s", one.Profile, config.Suggestion(one.Profile, c.tools.cfg.ProfileNames()))
		}
	}
	for name := range one.Answers {
		if _, ok := c.tools.find(name); !ok {
			c.wrong(below(at, "answers", name), "there is no tool %q in the config%s", name, config.Suggestion(name, c.tools.known()))
		}
		c.answer(one.Answers[name], below(at, "answers", name))
	}
	if one.Call == nil && (one.Fault != nil || one.Answer != nil || one.Expect != nil) {
		c.wrong(at, "fault, answer and expect belong to a call: write them into the items of steps")
	}
	so := history{seen: map[identity]bool{}, effects: map[string]int{}}
	for n, s := range one.steps() {
		c.step(&s, below(at, one.stepPath(n)...), &so)
	}
}

// below is a path that goes on from another.
func below(at []string, keys ...string) []string { return slices.Concat(at, keys) }

func (c *checker) answer(a answer, at []string) {
	if a.JSON != nil && a.Text != "" {
		c.wrong(at, "expected json or text, found both")
	}
	for name, value := range a.Headers {
		switch at := below(at, "headers", name); {
		case !httpguts.ValidHeaderFieldName(name):
			c.wrong(at, "is no name of a header")
		case !httpguts.ValidHeaderFieldValue(value):
			c.wrong(at, "is no value of a header")
		}
	}
}

// identity is what makes two calls one.
type identity struct{ tool, conversation, turn, id string }

// history is what the calls of a case have been so far.
type history struct {
	seen map[identity]bool
	// effects are the most that each tool can have had.
	effects map[string]int
	n       int
}

// add takes a call in and reports whether it is one that was made before.
func (h *history) add(s *call) (again bool) {
	h.n++
	id := identityOf(s, h.n-1)
	again = h.seen[id]
	h.seen[id] = true
	return again
}

// identityOf is what call n of a case is known by.
func identityOf(s *call, n int) identity {
	id := s.ID
	if id == "" {
		id = fmt.Sprintf("call_%d", n+1)
	}
	return identity{s.Tool, s.Conversation, s.Turn, id}
}

func (c *checker) step(s *step, at []string, so *history) {
	if s.Call == nil {
		return // told already
	}
	c.arguments(s.Call, at)
	for _, id := range []struct{ key, is, required string }{{"conversation", s.Call.Conversation, "conversation_id"}, {"turn", s.Call.Turn, "turn_id"}} {
		if id.is == "" && slices.Contains(c.tools.cfg.Identity.Require, id.required) {
			c.wrong(below(at, "call", id.key), "is empty, and the config requires it (identity.require)")
		}
	}
	if s.Answer != nil {
		c.answer(*s.Answer, below(at, "answer"))
	}
	faults, err := readPlan(s.Fault)
	if err != nil {
		c.wrong(below(at, "fault"), "%v", err)
	}
	again := so.add(s.Call)
	t, ok := c.tools.find(s.Call.Tool)
	if !ok {
		if s.Expect == nil || s.Expect.Code != string(tool.CodeUnknownTool) {
			c.wrong(below(at, "call", "tool"), "there is no tool %q in the config%s; a call of one that there is not expects code: UNKNOWN_TOOL",
				s.Call.Tool, config.Suggestion(s.Call.Tool, c.tools.known()))
		}
		if len(faults.faults) > 0 {
			c.wrong(below(at, "fault"), "a tool that there is not has no backend that could fail")
		}
	} else {
		c.standsIn(t, faults, at)
		if !again && t.effect != tool.ReadOnly && !faults.all(func(f fault) bool { return !f.effect }) {
			so.effects[t.name]++
		}
	}
	if s.Expect == nil {
		c.wrong(at, "expect is missing: what must be seen of the call")
		return
	}
	c.expectation(s.Expect, below(at, "expect"))
	if ok {
		c.counts(s.Expect, t, so.effects[t.name], below(at, "expect"))
	}
	if s.Expect.Replayed != nil && *s.Expect.Replayed && !again {
		c.wrong(below(at, "expect", "replayed"), "nothing can be replayed: this is the first call of the case with its id")
	}
}

func (c *checker) arguments(s *call, at []string) {
	if text := bytes.TrimSpace(s.Arguments); len(text) > 0 && text[0] != '{' && text[0] != '"' {
		c.wrong(below(at, "call", "arguments"), "expected a mapping, or a string that is sent as it is")
	}
}

// standsIn finds a backend that nothing here can stand in for, and faults that it
// cannot have.
func (c *checker) standsIn(t target, faults plan, at []string) {
	how := c.tools.transport(t.backend)
	if how == commands && !c.commands {
		c.wrong(below(at, "call", "tool"), "%s lives on the exec backend %s: there is no program here to stand in for commands, and the real ones are never run", t.name, t.backend)
		return
	}
	if v := t.rules.Verify; v != nil && !c.commands {
		if asked, ok := c.tools.find(v.Tool); ok && c.tools.transport(asked.backend) == commands {
			c.wrong(below(at, "call", "tool"), "%s is verified with %s, which lives on an exec backend: there is no program here to stand in for commands", t.name, v.Tool)
		}
	}
	for _, f := range faults.faults {
		if !how.can(f) {
			c.wrong(below(at, "fault"), "%s cannot have the fault %s", how, f.name())
			return
		}
	}
}

// expectation finds what no response can be.
func (c *checker) expectation(e *expectation, at []string) {
	if e.nothing() {
		c.wrong(at, "it expects nothing")
	}
	for key, text := range map[string]string{"constraint": e.Constraint, "hint": e.Hint, "content": e.Content} {
		if _, err := regexp.Compile(text); err != nil {
			c.wrong(below(at, key), "the pattern does not compile: %v", err)
		}
	}
	if e.RetryAfter < 0 {
		c.wrong(below(at, "retry_after"), "expected a duration that is not negative")
	}
	if e.Outcome != "" && e.Outcome != outcomeError {
		if key := e.ofErrors(); key != "" {
			c.wrong(below(at, key), "only an error has it, and outcome is %s", e.Outcome)
		}
	}
	code := tool.Code(e.Code)
	switch {
	case code == "":
	case !code.Valid():
		c.wrong(below(at, "code"), "there is no code %q%s", e.Code, config.Suggestion(e.Code, allCodes()))
		return
	case e.Class != "" && e.Class != string(code.Class()):
		c.wrong(below(at, "class"), "the class of %s is %s", code, code.Class())
	case e.Retryable != nil && *e.Retryable != code.Retryable():
		c.wrong(below(at, "retryable"), "%s is always retryable: %v", code, code.Retryable())
	}
	if e.Class != "" && !slices.Contains(allClasses(), e.Class) {
		c.wrong(below(at, "class"), "there is no class %q%s", e.Class, config.Suggestion(e.Class, allClasses()))
	}
}

// counts finds numbers that Sidecall never lets a backend see. effects is how many
// there can have been.
func (c *checker) counts(e *expectation, t target, effects int, at []string) {
	if e.Effects != nil && *e.Effects > effects {
		why := fmt.Sprintf("a %s tool has one per id at the most, and none where every request fails before it", t.effect)
		if t.effect == tool.ReadOnly {
			why = "a read_only tool has none"
		}
		c.wrong(below(at, "effects"), "%s cannot have had %s by then: %s", t.name, tool.Count(*e.Effects, "effect"), why)
	}
	if e.Attempts == nil {
		return
	}
	switch most := t.policy.Retry.MaxAttempts; {
	case *e.Attempts > most:
		c.wrong(below(at, "attempts"), "%s is sent %s at the most (retry.max_attempts)", t.name, tool.Count(most, "time"))
	case *e.Attempts > 1 && !t.sentAgain(c.tools.transport(t.backend)):
		c.wrong(below(at, "attempts"), "%s is %s: it is sent once, unless rejects_before_work or an error rule with not_executed proves that it did not run", t.name, t.effect)
	}
}

// nothing reports an expectation that every response meets.
func (e *expectation) nothing() bool {
	return e.Outcome == "" && e.ofErrors() == "" && e.Content == "" && e.Replayed == nil && e.Truncated == nil && e.Attempts == nil && e.Effects == nil
}

// ofErrors is the first key that only an error can meet.
func (e *expectation) ofErrors() string {
	for _, one := range []struct {
		key   string
		there bool
	}{
		{"code", e.Code != ""}, {"class", e.Class != ""}, {"retryable", e.Retryable != nil}, {"retries_exhausted", e.RetriesExhausted != nil},
		{"retry_after", e.RetryAfter != 0}, {"allowed_alternatives", e.Alternatives != nil}, {"suggested_arguments", e.Suggested != nil}, {"field", e.Field != nil},
		{"constraint", e.Constraint != ""}, {"hint", e.Hint != ""},
	} {
		if one.there {
			return one.key
		}
	}
	return ""
}

func allCodes() []string {
	var all []string
	for _, code := range tool.Codes() {
		all = append(all, string(code))
	}
	return all
}

func allClasses() []string {
	return []string{string(tool.Malformed), string(tool.Transient), string(tool.Hard), string(tool.Unknown), string(tool.Guard)}
}
