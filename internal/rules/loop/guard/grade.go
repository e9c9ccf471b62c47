package guard

// judge is the verdict on a call that has ended.
func (g *Guard) judge(p *past, rule Rule, l Limit, t *trail) Verdict {
	far := g.limits.AcrossEffects.beside(l)
	v := Verdict{Rule: rule, Tool: p.call.Tool, Count: t.near.tried, Limit: max(l.Refuse, 0), Since: t.near.since}
	v.Level, v.Refusals = g.grade(l, t.near.alike)
	if level, refusals := g.grade(far, t.far.alike); level > v.Level {
		v.Level, v.Refusals = level, refusals
		v.Count, v.Limit, v.Since = t.far.tried, max(far.Refuse, 0), t.far.since
	}
	return v.orNothing()
}

// grade is the level of a call that was not refused before it ended, though it may
// be now: each one from the limit on is a refusal.
func (g *Guard) grade(l Limit, count int) (_ Level, refusals int) {
	if l.Refuse > 0 && count >= l.Refuse {
		refusals = count - l.Refuse + 1
		return g.severity(refusals), refusals
	}
	if l.Nudge > 0 && count >= l.Nudge {
		return Nudge, 0
	}
	return Pass, 0
}

// severity is the level of a refusal by its number.
func (g *Guard) severity(refusals int) Level {
	switch {
	case g.limits.Stop > 0 && refusals >= g.limits.Stop:
		return Stop
	case g.limits.Escalate > 0 && refusals >= g.limits.Escalate:
		return Escalate
	default:
		return Refuse
	}
}

// refuse is the verdict on a call that is not to be made; l is the limit that it
// has reached.
func (g *Guard) refuse(p *past, rule Rule, l Limit, t *trail) Verdict {
	v := Verdict{Rule: rule, Tool: p.call.Tool, Count: t.near.tried, Limit: l.Refuse, Since: t.near.since}
	switch {
	case t.again > 0:
		v.Refusals = t.again
	case t.refused != nil:
		v.Refusals = max(p.inARow(), t.refused.Refusals+1)
	default:
		v.Refusals = p.inARow()
	}
	v.Count = max(v.Count, l.Refuse) // what was counted then may have left the log
	if t.refused != nil && t.refusedNear {
		v.Count = max(v.Count, t.refused.Count+1)
	}
	v.Level = g.severity(v.Refusals)
	return v
}

// across is the verdict by the calls before the last effect too.
func (v Verdict) across(t *trail) Verdict {
	v.Count, v.Since = max(v.Count, t.far.tried), t.far.since
	return v
}

// inARow is the number of the refusal that the present one would be if nothing else
// happened before it, by whatever rule; at least 1.
func (p *past) inARow() int {
	if len(p.entries) == 0 {
		return 1
	}
	last := &p.entries[len(p.entries)-1]
	switch {
	case last.Kind != Refused || last.Rule == Duplicate:
		return 1
	case last.seenBy(p.call) && (last.ID == 0 || last.ID != p.call.ID):
		return last.Refusals + 1
	default:
		return max(last.Refusals, 1)
	}
}

// orNothing is the verdict, if it says something.
func (v Verdict) orNothing() Verdict {
	if v.Level == Pass {
		return Verdict{}
	}
	return v
}

func (l Limit) off() bool { return l.Nudge <= 0 && l.Refuse <= 0 }

// beside is the limit beside a stricter one, of which it says no more than that.
func (l Limit) beside(strict Limit) Limit {
	if strict.Nudge <= 0 {
		l.Nudge = -1
	}
	if strict.Refuse <= 0 {
		l.Refuse = -1
	}
	return Limit{Nudge: max(l.Nudge, strict.Nudge), Refuse: max(l.Refuse, strict.Refuse)}
}
