package guard

import (
	"slices"

	"github.com/sidecall/sidecall/internal/tool"
)

// past is what a call is judged by.
type past struct {
	entries []Entry // of its prompt, the oldest first, without itself
	call    *Call
	own     *Entry // what came of it; nil before it is made
}

// sincePause are the entries since nobody had called anything for a while, before a
// call that begins at start.
func sincePause(entries []Entry, start Instant) []Entry {
	for i, e := range slices.Backward(entries) {
		if start-e.End >= pause {
			return entries[i+1:]
		}
		start = min(start, e.Start)
	}
	return entries
}

// tally counts calls, the present one included.
type tally struct {
	alike int // that were answered alike
	tried int // those that were refused too
	since Instant
}

// trail is what a rule finds in the log, from the newest entry back to the one that
// ends it: another outcome, a success, whatever the rule says.
type trail struct {
	// near has the calls since something new was done, far all of them.
	near, far tally
	// varied: their arguments differ.
	varied bool
	// refused is the latest refusal by the rule that the present call's maker can have
	// seen; nil when there is none.
	refused *Entry
	// refusedNear: there is one since something new was done.
	refusedNear bool
	// pending: of all the calls of the trail, the latest one that it can have seen was
	// refused.
	pending bool
	// again is which refusal it was when the present call was refused before, under
	// its id, and nothing new was done since; 0 when it was not.
	again int
	// across: the walk has come to something new that was done.
	across bool
	// ran: at least one call of the trail was not refused.
	ran bool
}

// concerns says which entries a rule is about, of those that can be before a call.
func (r Rule) concerns(e *Entry, c *Call) bool {
	if r == SameCall {
		return e.Same == c.Same || e.Tool == c.Tool && e.Words.like(c.Words)
	}
	return e.Tool == c.Tool && !e.Kind.malformed()
}

// alike says which of those count when their outcome is the same.
func (r Rule) alike(e *Entry) bool {
	return r == SameCall || r == SameError && e.Kind == Failed || r == SameResult && e.Kind == OK && e.Empty
}

// ends reports that an entry ends the trail of a rule, before latest: another outcome
// does.
func (r Rule) ends(e, latest *Entry) bool {
	return e.Kind != Refused && (!r.alike(e) || latest != nil && e.Outcome != latest.Outcome)
}

// follow walks the log backwards for SameCall, SameError or SameResult.
func (p *past) follow(rule Rule) trail {
	c := p.call
	own := tally{alike: 1, tried: 1, since: c.Start}
	t := trail{near: own, far: own}
	group := together{start: c.Start, batch: c.Batch, count: 1}
	latest, same := p.own, c.Same // of the calls that are alike
	for i := len(p.entries) - 1; i >= 0; i-- {
		e := &p.entries[i]
		if e.ID != 0 && e.ID == c.ID {
			t.itself(e, rule)
			continue
		}
		if !rule.concerns(e, c) {
			if t.passes(p.entries[:i], e, rule) {
				continue
			}
			return t
		}
		if rule.ends(e, latest) {
			return t
		}
		if e.Kind == Refused {
			t.refusal(e, c, rule)
			continue
		}
		if sentAgain(p.entries[i+1:], e) {
			continue
		}
		latest, t.ran = e, true
		if c.Polling && e.Same == same || !group.counts(e) {
			continue // who polls does not try once more, but looks again
		}
		t.varied = t.varied || e.Same != same
		same = e.Same
		t.count(e)
	}
	return t
}

// count takes one more call.
func (t *trail) count(e *Entry) {
	t.far.alike++
	t.far.tried++
	t.far.since = min(t.far.since, e.Start)
	if !t.across {
		t.near = t.far
	}
}

// itself takes the present call, as it was sent before.
func (t *trail) itself(e *Entry, rule Rule) {
	if e.Kind == Refused && e.Rule == rule && !t.across {
		t.again = max(t.again, e.Refusals)
	}
}

// passes takes a call that the rule is not about, and reports whether the trail goes
// on before it.
func (t *trail) passes(earlier []Entry, e *Entry, rule Rule) bool {
	if e.Kind != OK {
		return true
	}
	t.across = t.across || e.Effect != tool.ReadOnly && isNew(earlier, e)
	return rule != SameResult || !isNews(earlier, e)
}

// refusal takes one more call that was refused.
func (t *trail) refusal(e *Entry, c *Call, rule Rule) {
	if e.Rule != rule {
		return
	}
	t.far.tried++
	if !t.across {
		t.near, t.refusedNear = t.far, true
	}
	if t.refused == nil && e.seenBy(c) {
		t.refused = e
		t.pending = !t.ran
	}
}

// together are calls that were made at once: whoever made them had not seen what
// came of the others.
type together struct {
	start Instant
	batch Hash
	count int
}

// counts reports whether one more call counts, going back in time.
func (g *together) counts(e *Entry) bool {
	if e.End > g.start || e.Batch != 0 && e.Batch == g.batch {
		g.start = min(g.start, e.Start)
		g.count++
		return g.count <= togetherCount
	}
	*g = together{start: e.Start, batch: e.Batch, count: 1}
	return true
}

// sentAgain reports that the call of e was sent once more under its id, and so is
// one with a later entry.
func sentAgain(later []Entry, e *Entry) bool {
	for i := range later {
		if e.ID != 0 && later[i].ID == e.ID {
			return true
		}
	}
	return false
}

// isNew reports that nothing like e was done before: the world is another one, and
// what was tried may be tried again.
func isNew(earlier []Entry, e *Entry) bool {
	for i := range earlier {
		if earlier[i].Same == e.Same && earlier[i].Kind == OK {
			return false
		}
	}
	return true
}

// isNews reports that what a tool said had not been heard before.
func isNews(earlier []Entry, e *Entry) bool {
	for i := range earlier {
		if earlier[i].Outcome == e.Outcome {
			return false
		}
	}
	return true
}
