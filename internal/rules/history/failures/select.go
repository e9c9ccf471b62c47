package failures

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
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
	earlier   []entry        // attempts at this operation and target
	recent    []entry        // failures of the conversation
	elsewhere []entry        // of these, those of this operation at other targets
	made      map[uint32]int // how often each suggestion was made; what was said at other targets counts too
	now       []argument
	// more: there were attempts before the earlier ones, nobody knows how many.
	more bool
}

func pastOf(f *Failure) *past {
	p := &past{earlier: attempts(f.Earlier, f.Operation, f.Target), recent: readable(f.Recent), now: summary(f.Arguments)}
	operation, target := tool.ShortenBytes(f.Operation, maxOperation), tool.ShortenBytes(f.Target, maxTarget)
	for _, e := range p.recent {
		if e.operation == operation && e.target != target {
			p.elsewhere = append(p.elsewhere, e)
		}
	}
	p.number(len(f.Earlier) >= KeptAttempts-1) // a refused call has taken a place itself
	p.countMade()
	return p
}

// number numbers the attempts that were written blind; full says that the log holds no
// more.
func (p *past) number(full bool) {
	for i := range p.earlier {
		switch e := &p.earlier[i]; {
		case e.number > 0:
		case i > 0:
			e.number = p.earlier[i-1].number + 1
		default:
			e.number, p.more = 1, full
		}
	}
}

// countMade counts suggestions. An entry that was written blind has all that could be
// made: those that had not been made in vain before were, as many as there is place
// for.
func (p *past) countMade() {
	all := slices.Concat(p.earlier, p.elsewhere)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	p.made = make(map[uint32]int)
	for _, e := range all {
		left := len(e.shown)
		if e.blind {
			left = mostSuggested
		}
		for _, id := range e.shown {
			if left > 0 && (!e.blind || p.made[id] < madeInVain) {
				p.made[id]++
				left--
			}
		}
	}
}

// suggestions chooses from the catalogue: what the config says before what is built
// in, nothing twice, nothing that was tried, nothing that cannot be done.
func (a *Advisor) suggestions(f *Failure, p *past) []suggestion {
	return a.possible(f, p, mostSuggested)
}

// possible are the first so many.
func (a *Advisor) possible(f *Failure, p *past, most int) []suggestion {
	c := choice{failure: f, past: p, most: most}
	if !c.take(a.ofTools[f.Operation], false) && !c.take(a.rules, false) {
		c.take(builtIn(), true)
	}
	return c.chosen
}

// choice is what was chosen for a failure so far.
type choice struct {
	failure *Failure
	past    *past
	most    int
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
		if len(c.chosen) == c.most || only && end {
			break
		}
	}
	return only
}

func (c *choice) add(s suggestion) {
	known := slices.ContainsFunc(c.chosen, func(o suggestion) bool { return o.id == s.id })
	if len(c.chosen) < c.most && !known && s.possible(c.failure) && !s.triedIn(c.failure, c.past) {
		c.chosen = append(c.chosen, s)
	}
}

// possible reports whether each tool that is named can be called now.
func (s *suggestion) possible(f *Failure) bool {
	return !slices.ContainsFunc(s.tools, func(name string) bool { return f.Callable == nil || !f.Callable(name) })
}

// triedIn reports whether the past shows that the suggestion was followed. A model
// that looks for a file under many names is told the same only twice.
func (s *suggestion) triedIn(f *Failure, p *past) bool {
	return p.made[s.id] >= madeInVain || s.failedItself(f, p) || s.tried.shown(f, p)
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
