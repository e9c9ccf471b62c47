package guard

import "github.com/sidecall/sidecall/internal/tool"

// Batch judges the calls of one batch by each other, one verdict per call, before
// any of them is made; the log knows nothing of them yet. A call with a Same of 0 (as
// a malformed one should have here), one of a polling tool, and one whose id is that
// of an earlier one are left to others.
//
// A repetition of a call that does something each time is refused at once: the same
// payment twice in one breath is a slip, and whoever means it can say so in the next
// turn. One that may be repeated is refused from where on it would be one after the
// other: it costs time, and does no harm. Nothing goes further than Refuse.
func (g *Guard) Batch(calls []Call) []Verdict {
	verdicts := make([]Verdict, len(calls))
	if g == nil || len(calls) < 2 {
		return verdicts
	}
	type seen struct{ first, count int }
	of := make(map[Hash]seen, len(calls))
	ids := make(map[Hash]struct{}, len(calls))
	for i, c := range calls {
		if c.Same == 0 || c.Polling {
			continue
		}
		if c.ID != 0 {
			if _, sent := ids[c.ID]; sent {
				continue
			}
			ids[c.ID] = struct{}{}
		}
		so, known := of[c.Same]
		if !known {
			so.first = i
		}
		so.count++
		of[c.Same] = so
		verdicts[i] = g.duplicate(&c, so.count, so.first, calls[so.first].Start)
	}
	return verdicts
}

// duplicate is the verdict on the count-th of a call in a batch.
func (g *Guard) duplicate(c *Call, count, first int, since Instant) Verdict {
	l := g.limits.DuplicateEffect
	if c.Effect == tool.ReadOnly || c.Effect == tool.Idempotent {
		l = g.limits.DuplicateRead
	}
	v := Verdict{Rule: Duplicate, Tool: cutName(c.Tool), Count: count, Limit: max(l.Refuse, 0), Since: since, First: first}
	if v.Level, v.Refusals = g.grade(l, count); v.Level.Refused() {
		v.Level, v.Refusals = Refuse, 1
	}
	return v.orNothing()
}
