package guard

import "github.com/sidecall/sidecall/internal/tool"

// sameCall: the same call, with the same outcome each time. Once it is refused it
// stays so until something new was done: what it leads to is known. Of the same question
// in other words that is not so sure.
func (g *Guard) sameCall(p *past) Verdict {
	l := g.limits.SameCall
	if p.call.Polling || p.call.Same == 0 || l.off() {
		return Verdict{}
	}
	t := p.follow(SameCall)
	if p.own != nil {
		return g.judge(p, SameCall, l, &t)
	}
	if t.varied {
		return g.vague(p, SameCall, l, &t)
	}
	near := l.Refuse > 0 && (t.near.alike >= l.Refuse || t.refusedNear || t.again > 0)
	if far := g.limits.AcrossEffects.beside(l); !near && far.Refuse > 0 && t.far.alike >= far.Refuse && !g.onTrial(&t) {
		return g.refuse(p, SameCall, far, &t).across(&t)
	}
	if !near {
		return Verdict{}
	}
	return g.refuse(p, SameCall, l, &t)
}

// sameError: a tool fails in the same way, with other arguments each time.
func (g *Guard) sameError(p *past) Verdict {
	l := g.limits.SameError
	if l.off() {
		return Verdict{}
	}
	t := p.follow(SameError)
	return g.vague(p, SameError, l, &t)
}

// sameResult: a tool that only reads finds nothing, with other arguments each time. That
// it finds the same is no loop: a hundred checks of a hundred orders may all say "ok".
func (g *Guard) sameResult(p *past) Verdict {
	l := g.limits.SameResult
	if p.call.Polling || p.call.Effect != tool.ReadOnly || l.off() {
		return Verdict{}
	}
	t := p.follow(SameResult)
	return g.vague(p, SameResult, l, &t)
}

// vague judges by a rule that cannot tell another attempt of the same kind from
// another approach with the same tool. So after each refusal one more call is let
// through, on trial: what it leads to decides. Else a tool that runs any command
// could never be used again. That ends when the program has been told to stop.
func (g *Guard) vague(p *past, rule Rule, l Limit, t *trail) Verdict {
	if p.own != nil {
		if !t.varied {
			return Verdict{}
		}
		return g.judge(p, rule, l, t)
	}
	far := g.limits.AcrossEffects.beside(l)
	switch {
	case t.again > 0 && l.Refuse > 0:
		return g.refuse(p, rule, l, t)
	case g.onTrial(t):
		return Verdict{}
	case t.pending && t.refusedNear && l.Refuse > 0: // it was told to stop
		return g.refuse(p, rule, l, t)
	case !t.varied:
		return Verdict{}
	case l.Refuse > 0 && t.near.alike >= l.Refuse:
		return g.refuse(p, rule, l, t)
	case far.Refuse > 0 && t.far.alike >= far.Refuse:
		return g.refuse(p, rule, far, t).across(t)
	default:
		return Verdict{}
	}
}

// onTrial: the last thing that happened was a refusal, and not the final one.
func (g *Guard) onTrial(t *trail) bool {
	return t.pending && (g.limits.Stop <= 0 || t.refused.Refusals < g.limits.Stop)
}

// malformed: calls that are invalid or unknown, one after the other. They have no
// outcome that matters.
func (g *Guard) malformed(p *past) Verdict {
	l := g.limits.Malformed
	if l.off() {
		return Verdict{}
	}
	v := Verdict{Rule: Malformed, Tool: p.call.Tool, Count: 1, Limit: max(l.Refuse, 0), Since: p.call.Start}
	group := together{start: p.call.Start, batch: p.call.Batch, count: 1}
	for i := len(p.entries) - 1; i >= 0; i-- {
		e := &p.entries[i]
		if e.ID != 0 && e.ID == p.call.ID {
			continue
		}
		if !e.Kind.malformed() {
			break
		}
		if !sentAgain(p.entries[i+1:], e) && group.counts(e) {
			v.Count++
			v.Since = min(v.Since, e.Start)
		}
	}
	v.Level, v.Refusals = g.grade(l, v.Count)
	return v.orNothing()
}
