package guard

// sequence is the calls that ended one after the other, the newest first, up to the
// present one, each made by someone who could see what came of the one before it.
type sequence struct {
	calls [LogEntries + 1]*Entry
	n     int
}

// cycle: two or three calls in turn, with the same outcomes each time. One call in
// turn with itself is sameCall's.
func (g *Guard) cycle(p *past) Verdict {
	l := g.limits.Cycle
	if p.call.Same == 0 || l.off() {
		return Verdict{}
	}
	if v := g.stillCycle(p, l); v.Level.Refused() {
		return v
	}
	present := Entry{Call: *p.call}
	if p.own != nil {
		present = *p.own
	}
	s := sequenceTo(p.entries, &present)
	var worst Verdict
	for length := 2; length <= longestCycle; length++ {
		rounds := s.rounds(length, p.own != nil)
		v := Verdict{Rule: Cycle, Tool: p.call.Tool, Count: rounds, Limit: max(l.Refuse, 0)}
		v.Level, v.Refusals = g.grade(l, rounds)
		if v.Level.Refused() && p.own == nil {
			v.Refusals = p.inARow()
			v.Level = g.severity(v.Refusals)
		}
		if v.Level > worst.Level {
			v.Since = s.calls[rounds*length-1].Start
			v.Round = s.round(length)
			worst = v
		}
	}
	return worst
}

// stillCycle refuses what it has refused to the end, or under the same id, though so
// often that the cycle itself has left the log.
func (g *Guard) stillCycle(p *past, l Limit) Verdict {
	if p.own != nil || len(p.entries) == 0 || l.Refuse <= 0 {
		return Verdict{}
	}
	last := &p.entries[len(p.entries)-1]
	toTheEnd := g.limits.Stop > 0 && last.Refusals >= g.limits.Stop
	itself := last.ID != 0 && last.ID == p.call.ID
	if last.Kind != Refused || last.Rule != Cycle || last.Same != p.call.Same || !toTheEnd && !itself {
		return Verdict{}
	}
	refusals := p.inARow()
	return Verdict{
		Level: g.severity(refusals), Rule: Cycle, Tool: p.call.Tool, Count: max(last.Count, l.Refuse), Limit: l.Refuse,
		Since: last.Start, Refusals: refusals, Round: []string{p.call.Tool},
	}
}

// sequenceTo is the sequence that ends with the present call. It ends where
// calls were made at once, or somebody looks again at what he waits for.
func sequenceTo(entries []Entry, present *Entry) (s sequence) {
	s.calls[0], s.n = present, 1
	for i := len(entries) - 1; i >= 0 && s.n < len(s.calls); i-- {
		e := &entries[i]
		switch {
		case e.Kind == Refused || e.ID != 0 && (e.ID == present.ID || e.ID == s.calls[s.n-1].ID):
			continue // sent again under its id
		case e.Polling || !e.seenBy(&s.calls[s.n-1].Call):
			return s
		}
		s.calls[s.n] = e
		s.n++
	}
	return s
}

// rounds is how many times the last calls, so many, stand one after the other;
// 1 when they are not repeated, or are one call only. The outcome of the present one may
// not be known yet.
func (s *sequence) rounds(length int, known bool) int {
	alike := 0
	for ; alike+length < s.n; alike++ {
		later, earlier := s.calls[alike], s.calls[alike+length]
		if later.Same != earlier.Same || later.Outcome != earlier.Outcome && (known || alike > 0) {
			break
		}
	}
	for i := 1; i < min(length, s.n); i++ {
		if s.calls[i].Same != s.calls[0].Same {
			return (alike + length) / length
		}
	}
	return 1
}

// round names the tools of the last calls, so many, the present one last.
func (s *sequence) round(length int) []string {
	names := make([]string, 0, longestCycle)
	for i := length - 1; i >= 0; i-- {
		names = append(names, s.calls[i].Tool)
	}
	return names
}
