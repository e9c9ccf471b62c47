package failures

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/pattern"
	"github.com/sidecall/sidecall/tool"
)

const (
	// mostSuggested is how many suggestions a block has.
	mostSuggested = 4
	// madeInVain is how often a suggestion is made.
	madeInVain = 2
	// patternSteps is what all patterns may cost for one failure, some 15 ms. What
	// is not matched by then does not match.
	patternSteps = 1 << 20
	// waited is how long one has waited who has waited.
	waited = time.Minute
)

// past is what is known of a failure's past, oldest first.
type past struct {
	earlier   []entry // attempts at this operation and target
	recent    []entry // failures of the conversation
	elsewhere []entry // of these, those of this operation at other targets
	now       []argument
}

func pastOf(f *Failure) *past {
	p := &past{earlier: attempts(f.Earlier, f.Operation, f.Target), recent: readable(f.Recent), now: summary(f.Arguments)}
	operation, target := tool.ShortenBytes(f.Operation, maxOperation), tool.ShortenBytes(f.Target, maxTarget)
	for _, e := range p.recent {
		if e.operation == operation && e.target != target {
			p.elsewhere = append(p.elsewhere, e)
		}
	}
	return p
}

// suggestions chooses from the catalogue: what the config says before what is built
// in, nothing twice, nothing that was tried, nothing that cannot be done.
func (a *Advisor) suggestions(f *Failure, p *past) []suggestion {
	c := choice{failure: f, past: p}
	if only := c.take(a.rules, false); !only {
		c.take(builtIn(), true)
	}
	return c.chosen
}

// choice is what was chosen for a failure so far.
type choice struct {
	failure *Failure
	past    *past
	chosen  []suggestion
}

// take chooses from the rules that match, and reports whether one of them wants
// nothing after it; then it may end there.
func (c *choice) take(rules []compiled, end bool) (only bool) {
	meter := pattern.NewMeter(context.Background(), patternSteps)
	said := strings.ToLower(tool.Shorten(c.failure.Error, maxMatched))
	for i := range rules {
		if !rules[i].matches(c.failure, meter, said) {
			continue
		}
		for _, s := range rules[i].suggest {
			c.add(s)
		}
		only = only || rules[i].only
		if len(c.chosen) == mostSuggested || only && end {
			break
		}
	}
	return only
}

func (c *choice) add(s suggestion) {
	known := slices.ContainsFunc(c.chosen, func(o suggestion) bool { return o.id == s.id })
	if len(c.chosen) < mostSuggested && !known && s.possible(c.failure) && !s.triedIn(c.failure, c.past) {
		c.chosen = append(c.chosen, s)
	}
}

// possible reports whether each tool that is named can be called now.
func (s *suggestion) possible(f *Failure) bool {
	return !slices.ContainsFunc(s.tools, func(name string) bool { return f.Callable == nil || !f.Callable(name) })
}

// triedIn reports whether the past shows that the suggestion was followed. What was
// said of the operation at other targets counts too: a model that looks for a file
// under many names is told the same only twice.
func (s *suggestion) triedIn(f *Failure, p *past) bool {
	made := 0
	count := func(e entry) {
		if slices.Contains(e.shown, s.id) {
			made++
		}
	}
	for _, e := range p.earlier {
		count(e)
	}
	for _, e := range p.elsewhere {
		count(e)
	}
	return made >= madeInVain || s.failedItself(f, p) || s.tried.shown(f, p)
}

// failedItself reports whether a tool that is named has failed at this target.
func (s *suggestion) failedItself(f *Failure, p *past) bool {
	return slices.ContainsFunc(p.recent, func(e entry) bool { return e.target == f.Target && slices.Contains(s.tools, e.operation) })
}

// shown reports whether earlier attempts and this one show it.
func (t Tried) shown(f *Failure, p *past) bool {
	if t == TriedChanged && slices.ContainsFunc(p.elsewhere, func(e entry) bool { return e.code == f.Code }) {
		return true
	}
	return slices.ContainsFunc(p.earlier, func(e entry) bool { return e.code == f.Code && t.shownBy(&e, f, p) })
}

func (t Tried) shownBy(e *entry, f *Failure, p *past) bool {
	switch t {
	case TriedChanged:
		return !e.unread && !slices.Equal(e.arguments, p.now)
	case TriedRepeated:
		return !e.unread && slices.Equal(e.arguments, p.now)
	case TriedWaited:
		return f.At.Sub(p.earlier[len(p.earlier)-1].time()) >= waited
	case TriedSmaller:
		return slices.ContainsFunc(e.arguments, func(a argument) bool {
			then, ok := a.number()
			b, has := find(p.now, a.name)
			now, isNumber := b.number()
			return ok && has && isNumber && now < then
		})
	case TriedUnknown:
	}
	return false
}
