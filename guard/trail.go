package guard

import "github.com/sidecall/sidecall/tool"

// past is what a call is judged by.
type past struct {
	entries []Entry // of its prompt, the oldest first, without itself
	call    *Call
	own     *Entry // what came of it; nil before it is made
}

// trail is what a rule finds in the log, from the newest entry back to the one that
// ends it: another outcome, a success, whatever the rule says.
type trail struct {
	// near counts the calls that were answered alike, the present one included, since
	// something new was done; far all of them.
	near, far int
	// nearTried and farTried count the calls that were refused too.
	nearTried, farTried int
	nearSince, farSince Instant
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
	// ran: at least one call of the trail was not refused.
	ran bool
}

// concerns says which entries a rule is about, of those that can be before a call.
func (r Rule) concerns(e *Entry, c *Call) bool {
	if r == SameCall {
		return e.Same == c.Same
	}
	return e.Tool == c.Tool && !e.Kind.malformed()
}

// alike says which of those count when their outcome is the same.
func (r Rule) alike(e *Entry) bool {
	switch r {
	case SameError:
		return e.Kind == Failed
	case SameResult:
		return e.Kind == OK
	default:
		return true
	}
}

// follow walks the log backwards for SameCall, SameError or SameResult.
func (p *past) follow(rule Rule) trail {
	c := p.call
	t := trail{near: 1, far: 1, nearTried: 1, farTried: 1, nearSince: c.Start, farSince: c.Start}
	latest := p.own // of the entries that are alike
	group := together{start: c.Start, batch: c.Batch, count: 1}
	later, same, across := c.Start, c.Same, false
	for i := len(p.entries) - 1; i >= 0; i-- {
		e := &p.entries[i]
		switch {
		case e.ID != 0 && e.ID == c.ID: // the call itself, when it was sent before
			if e.Kind == Refused && e.Rule == rule && !across {
				t.again = max(t.again, e.Refusals)
			}
			continue
		case !rule.concerns(e, c):
			if e.Kind != OK {
				continue
			}
			across = across || e.Effect != tool.ReadOnly && isNew(p.entries[:i], e)
			if rule == SameResult && isNews(p.entries[:i], e) {
				return t
			}
			continue
		case e.Kind == Refused:
			if e.Rule == rule {
				t.refusal(e, c, across)
			}
			continue
		case !rule.alike(e) || latest != nil && e.Outcome != latest.Outcome:
			return t
		case e.ComeAgain != 0 && later >= e.ComeAgain: // it came no sooner than it was told
			return t
		}
		if sentAgain(p.entries[i+1:], e) {
			continue
		}
		latest, later, t.ran = e, e.Start, true
		if c.Polling && e.Same == same || !group.counts(e) {
			continue // who polls does not try once more, but looks again
		}
		t.varied = t.varied || e.Same != same
		same = e.Same
		t.count(e, across)
	}
	return t
}

// count takes one more call.
func (t *trail) count(e *Entry, across bool) {
	t.far++
	t.farTried++
	t.farSince = min(t.farSince, e.Start)
	if !across {
		t.near++
		t.nearTried++
		t.nearSince = t.farSince
	}
}

// refusal takes one more call that was refused.
func (t *trail) refusal(e *Entry, c *Call, across bool) {
	t.farTried++
	if !across {
		t.nearTried++
		t.refusedNear = true
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
