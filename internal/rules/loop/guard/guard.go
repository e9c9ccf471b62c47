package guard

// Guard is the rules with the limits of one profile. It is immutable and safe for
// concurrent use. A nil Guard has nothing to say.
type Guard struct {
	limits Thresholds // without zeros
}

// New returns the guard of a profile; nil when every rule is off. The error is that
// of Validate.
func New(t Thresholds) (*Guard, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	g := &Guard{limits: t.resolved()}
	if g.limits.off() {
		return nil, nil
	}
	return g, nil
}

// Before judges a call that is about to be made: Pass, or Refuse and beyond. The log
// is that of its prompt without the call itself.
func (g *Guard) Before(log Log, c Call) Verdict {
	if g == nil || log.quiet(&c) {
		return Verdict{}
	}
	return g.before(log.entries(), c)
}

func (g *Guard) before(entries []Entry, c Call) Verdict {
	c.Tool = cutName(c.Tool)
	p := past{entries: sincePause(entries, c.Start), call: &c}
	v := graver(g.sameCall(&p), g.cycle(&p))
	v = graver(v, g.sameError(&p))
	v = graver(v, g.sameResult(&p))
	if !v.Level.Refused() {
		return Verdict{} // a nudge comes with the result
	}
	return v
}

// After judges a call that has been made: Pass or Nudge. The log is the one that
// Before was shown, the entry what is appended to it.
func (g *Guard) After(log Log, e Entry) Verdict {
	if g == nil || e.Kind == Refused || e.Kind == OK && log.quiet(&e.Call) {
		return Verdict{}
	}
	return g.after(log.entries(), e)
}

func (g *Guard) after(entries []Entry, e Entry) Verdict {
	e.Tool = cutName(e.Tool)
	v := g.ended(entries, &e)
	v.Level = min(v.Level, Nudge)
	v.Refusals = 0
	return v
}

// TurnedAway judges a call that was refused before anybody asked the guard: it was
// invalid, its tool unknown or forbidden. Its entry is the last one of the log. Here
// every level is possible; from Refuse on the answer is LOOP_DETECTED instead of the
// error that it would be.
func (g *Guard) TurnedAway(log Log) Verdict {
	if g == nil {
		return Verdict{}
	}
	entries := log.entries()
	last := len(entries) - 1
	if last < 0 || entries[last].Kind == Refused {
		return Verdict{}
	}
	return g.ended(entries[:last], &entries[last])
}

// ended judges a call whose outcome is known by the entries before it.
func (g *Guard) ended(entries []Entry, e *Entry) Verdict {
	p := past{entries: sincePause(entries, e.Start), call: &e.Call, own: e}
	v := graver(g.sameCall(&p), g.cycle(&p))
	switch {
	case e.Kind.malformed():
		return graver(v, g.malformed(&p))
	case e.Kind == Failed:
		return graver(v, g.sameError(&p))
	default:
		return graver(v, g.sameResult(&p))
	}
}
