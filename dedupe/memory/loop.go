package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

func tallyOf(key dedupe.Key, counter string) sheetKey {
	return sheetKey{key.Tenant, key.Conversation, counter, false}
}

func logOf(key dedupe.Key, name string) sheetKey {
	return sheetKey{key.Tenant, key.Conversation, name, true}
}

// sheet returns what is there as of now; nothing once its time is over.
func (s *Store) sheet(key sheetKey, now time.Time) (p sheet, found bool) {
	p, found = s.sheets[key]
	if !found || !now.Before(p.expires) {
		return sheet{}, false
	}
	return p, true
}

// turn stores a sheet. The one that was to expire first gives way when there are
// as many as there may be records.
func (s *Store) turn(key sheetKey, p sheet, retention time.Duration, now time.Time) {
	p.expires = now.Add(retention)
	if _, known := s.sheets[key]; !known {
		s.sheetQueue.push(p.expires, key)
	}
	s.sheets[key] = p
	for len(s.sheets) > s.options.MaxRecords {
		delete(s.sheets, s.sheetQueue.pop())
	}
}

// move applies what a transition does to tallies. A charge that is given back to
// one that is not there is dropped.
func (s *Store) move(key dedupe.Key, moves []dedupe.Move, retention time.Duration, now time.Time) {
	for _, m := range moves {
		name := tallyOf(key, m.Counter)
		p, found := s.sheet(name, now)
		if found || m.Calls > 0 {
			p.tally = p.tally.Add(m.Calls, now)
			s.turn(name, p, retention, now)
		}
	}
}

// bill applies the draw of a request; see dedupe.Record.Bill.
func (s *Store) bill(req *dedupe.Request, current, next dedupe.Record, verdict dedupe.Verdict, now time.Time) *dedupe.Admission {
	if req.Draw.Counter == "" {
		return nil
	}
	name := tallyOf(req.Key, req.Draw.Counter)
	p, _ := s.sheet(name, now)
	after, exceeded := current.Bill(req, next, verdict, p.tally, now)
	if exceeded == nil && after != p.tally {
		p.tally = after
		s.turn(name, p, req.Retention, now)
	}
	return exceeded
}

// drawn is the tally that a request draws on; empty without one.
func (s *Store) drawn(req *dedupe.Request, now time.Time) dedupe.Tally {
	if req.Draw.Counter == "" {
		return dedupe.Tally{}
	}
	p, _ := s.sheet(tallyOf(req.Key, req.Draw.Counter), now)
	return p.tally
}

// spend adds tokens to a tally that is there.
func (s *Store) spend(settlement *dedupe.Settlement, now time.Time) {
	name := tallyOf(settlement.Key, settlement.Spend.Counter)
	if p, found := s.sheet(name, now); found && settlement.Spend.Tokens > 0 {
		p.tally = p.tally.Spend(settlement.Spend.Tokens)
		s.turn(name, p, settlement.Retention, now)
	}
}

func (s *Store) append(key dedupe.Key, appends []dedupe.Append, retention time.Duration, now time.Time) {
	for _, a := range appends {
		name := logOf(key, a.Log)
		p, _ := s.sheet(name, now)
		p.entries = append(slices.Clip(p.entries), bytes.Clone(a.Entry))
		p.entries = p.entries[max(0, len(p.entries)-a.Keep):]
		s.turn(name, p, retention, now)
	}
}

func (s *Store) logs(key dedupe.Key, names []string, now time.Time) dedupe.Logs {
	if len(names) == 0 {
		return nil
	}
	logs := make(dedupe.Logs, len(names))
	for i, name := range names {
		p, _ := s.sheet(logOf(key, name), now)
		logs[i] = p.entries
	}
	return logs
}

// Note implements dedupe.Store.
func (s *Store) Note(ctx context.Context, n dedupe.Note) (dedupe.Noted, error) {
	if err := n.Validate(); err != nil {
		return dedupe.Noted{}, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return dedupe.Noted{}, err
	}
	defer s.mu.Unlock()
	record := s.find(n.Key, now).Observed(now)
	if record.Refused() {
		s.append(n.Key, n.Appends, n.Retention, now)
	}
	tally, _ := s.sheet(tallyOf(n.Key, n.Counter), now)
	return dedupe.Noted{Record: record, Logs: s.logs(n.Key, n.Logs, now), Tally: tally.tally}, nil
}
