package dedupe

import (
	"math"
	"slices"
	"time"
)

// step is what all steps have in common.
type step struct{ key Key }

func (s *step) Call() Key { return s.key }
func (*step) Binds() bool { return false }
func (s *step) Bytes() int {
	return StoredBytes + len(s.key.Tenant) + len(s.key.Conversation) + len(s.key.Turn) + len(s.key.ID)
}
func (*step) Room() Room { return Frees }

// admitting is the step of a request.
type admitting struct {
	step
	req       Request
	admission Admission
}

func (*admitting) Room() Room    { return Begins }
func (a *admitting) Binds() bool { return a.admission.Verdict == Won }
func (a *admitting) Bytes() int {
	n := a.step.Bytes() + len(a.req.Charges)*MaxCounterBytes
	if !a.req.EffectKey.none() {
		n += MaxHolders * a.step.Bytes()
	}
	return n
}

// Apply implements Step: what the state machine, the effect of the request and the
// ceilings of its prompt say of it.
func (a *admitting) Apply(rows Rows) error {
	req, now := &a.req, rows.Now()
	a.admission = Admission{}
	old, err := rows.Call(req.Key)
	if err != nil {
		return err
	}
	next, verdict, changed := old.Admit(*req, now)
	tallies := tallies{rows: rows, key: req.Key}
	drawn, err := tallies.get(req.Draw.Counter)
	if err != nil {
		return err
	}
	var holds []Key
	if old.Contends(req, verdict) {
		var refusal *Admission
		if refusal, holds, err = contend(rows, req); err != nil {
			return err
		}
		if refusal != nil {
			a.admission = *refusal
			a.admission.Tally = drawn.tally()
			if refusal.Verdict == EffectInFlight {
				rows.Awaited(refusal.Earlier)
			}
			return nil
		}
	}
	if drawn != nil {
		after, exceeded := old.Bill(req, next, verdict, drawn.Tally, now.UTC())
		if exceeded != nil {
			a.admission = *exceeded
			return nil
		}
		drawn.set(after)
	}
	a.admission = Admission{Verdict: verdict, Record: next}
	if err := tallies.move(old.Moves(next)); err != nil {
		return err
	}
	if changed {
		err = rows.SetCall(req.Key, &a.admission.Record, req.Retention)
	} else if verdict == InFlight {
		rows.Awaited(req.Key)
	}
	if err == nil && holds != nil {
		err = rows.SetSheet(effectSheet(req.Key, &req.EffectKey), encodeHolders(holds), req.EffectKey.Keep(req.Retention))
	}
	if err == nil {
		err = tallies.store(req.Retention)
	}
	if err == nil && verdict == Won {
		err = rows.Logs(req.Key, req.Logs, &a.admission.Logs)
	}
	a.admission.Tally = drawn.tally()
	return err
}

// contend compares a request with the calls that hold its effect; see Contend.
func contend(rows Rows, req *Request) (refusal *Admission, holds []Key, err error) {
	keys, err := holders(rows, effectSheet(req.Key, &req.EffectKey))
	held := make([]Holder, len(keys))
	for i, key := range keys {
		record, err := rows.Call(key)
		if err != nil {
			return nil, nil, err
		}
		held[i] = Holder{Key: key, Record: record.Record}
	}
	if err != nil {
		return nil, nil, err
	}
	refusal, holds = Contend(req, held, rows.Now())
	return refusal, holds, nil
}

func holders(rows Rows, name Sheet) ([]Key, error) {
	body, err := rows.Sheet(name)
	if err != nil {
		return nil, err
	}
	return decodeHolders(body)
}

// tallies are those of a conversation that a step changes.
type tallies struct {
	rows Rows
	key  Key
	all  []*counted
	one  counted // the first of them, which is mostly the only one
}

// counted is a tally as a step has it.
type counted struct {
	Tally
	counter        string
	found, changed bool
}

func (c *counted) tally() Tally {
	if c == nil {
		return Tally{}
	}
	return c.Tally
}

func (c *counted) set(t Tally) {
	c.changed = c.changed || t != c.Tally
	c.Tally = t
}

// get returns the tally of a counter; nil for no counter.
func (t *tallies) get(counter string) (*counted, error) {
	if counter == "" {
		return nil, nil
	}
	for _, c := range t.all {
		if c.counter == counter {
			return c, nil
		}
	}
	body, err := t.rows.Sheet(tallySheet(t.key, counter))
	if err != nil {
		return nil, err
	}
	c := &t.one
	if len(t.all) > 0 {
		c = &counted{}
	}
	c.counter, c.found = counter, body != ""
	c.Tally, err = decodeTally(body)
	t.all = append(t.all, c)
	return c, err
}

// move applies what a transition does to tallies. What is given back to one that is not
// there is dropped.
func (t *tallies) move(moves []Move) error {
	for _, m := range moves {
		c, err := t.get(m.Counter)
		if err != nil {
			return err
		}
		if c.found || m.Calls > 0 {
			c.set(c.Add(m.Calls, t.rows.Now().UTC()))
			c.changed = true // it is kept for longer
		}
	}
	return nil
}

// store stores those that have changed.
func (t *tallies) store(keep time.Duration) error {
	for _, c := range t.all {
		if c.changed {
			if err := t.rows.SetSheet(tallySheet(t.key, c.counter), c.encode(), keep); err != nil {
				return err
			}
		}
	}
	return nil
}

// settling is the step of a settlement.
type settling struct {
	step
	settlement Settlement
	verdict    SettleVerdict
}

func (s *settling) Binds() bool { return s.verdict != Superseded }
func (s *settling) Room() Room {
	if s.settlement.Output != nil {
		return Keeps
	}
	return Frees
}

func (s *settling) Bytes() int {
	n := s.step.Bytes() + len(s.settlement.Result) + appendBytes(s.settlement.Appends)
	if c := s.settlement.Claim; c != nil {
		n += len(c.Record.Charges) * MaxCounterBytes
	}
	if s.settlement.Output != nil {
		n += len(s.settlement.Output.Data)
	}
	return n
}

// Apply implements Step.
func (s *settling) Apply(rows Rows) error {
	end := &s.settlement
	old, err := rows.Call(end.Key)
	if err != nil {
		return err
	}
	next, verdict, changed := old.SettleLate(*end, rows.Now())
	if s.verdict = verdict; verdict == Superseded {
		return nil
	}
	switch {
	case changed:
		err = s.end(rows, &old.Record, &next)
	case old.State != Absent:
		rows.Confirm(end.Key)
	}
	if err == nil && !end.Frees.none() {
		err = free(rows, end.Key, &end.Frees)
	}
	if err == nil && end.Output != nil {
		err = rows.Keep(end.Key.Tenant, end.Output)
	}
	return err
}

// end stores what a settlement changes.
func (s *settling) end(rows Rows, old, next *Record) error {
	if next.Owner != old.Owner {
		if err := hold(rows, s.key, &s.settlement.Claim.EffectKey, s.settlement.Retention); err != nil {
			return err
		}
	}
	tallies := tallies{rows: rows, key: s.key}
	if err := tallies.move(old.Moves(*next)); err != nil {
		return err
	}
	spent, err := tallies.get(s.settlement.Spend.Counter)
	if err != nil {
		return err
	}
	if spent != nil && spent.found {
		spent.set(spent.Spend(s.settlement.Spend.Tokens))
		spent.changed = true // it is kept for longer
	}
	if err := rows.SetCall(s.key, next, s.settlement.Retention); err != nil {
		return err
	}
	if err := tallies.store(s.settlement.Retention); err != nil {
		return err
	}
	return appendAll(rows, s.key, s.settlement.Appends, s.settlement.Retention)
}

func appendAll(rows Rows, key Key, appends []Append, keep time.Duration) error {
	for _, a := range appends {
		if err := rows.Append(key, a, keep); err != nil {
			return err
		}
	}
	return nil
}

// free takes a call out of those that hold an effect.
func free(rows Rows, key Key, e *EffectKey) error {
	name := effectSheet(key, e)
	keys, err := holders(rows, name)
	if err != nil || !slices.Contains(keys, key) {
		return err
	}
	return rows.SetSheet(name, encodeHolders(Freed(keys, key)), 0)
}

// renewing is the step of a renewal.
type renewing struct {
	step
	owner string
	epoch int64
	lease time.Duration
	ok    bool
}

func (r *renewing) Binds() bool { return r.ok }

// Apply implements Step.
func (r *renewing) Apply(rows Rows) error {
	old, err := rows.Call(r.key)
	if err != nil {
		return err
	}
	next, ok := old.Renew(r.owner, r.epoch, r.lease, rows.Now())
	if r.ok = ok; !ok {
		return nil
	}
	return rows.SetCall(r.key, &next, old.Retention)
}

// restoring is the step of a restoration.
type restoring struct {
	step
	back     Restoration
	record   Record
	restored bool
}

func (r *restoring) Binds() bool { return r.restored }

// Apply implements Step.
func (r *restoring) Apply(rows Rows) error {
	old, err := rows.Call(r.key)
	if err != nil {
		return err
	}
	if r.record, r.restored = old.Restore(r.back, rows.Now()); !r.restored {
		return nil
	}
	tallies := tallies{rows: rows, key: r.key}
	if err := tallies.move(old.Moves(r.record)); err != nil {
		return err
	}
	if err := hold(rows, r.key, &r.back.EffectKey, r.back.Retention); err != nil {
		return err
	}
	if err := rows.SetCall(r.key, &r.record, r.back.Retention); err != nil {
		return err
	}
	return tallies.store(r.back.Retention)
}

// noting is the step of a note.
type noting struct {
	step
	note  Note
	noted Noted
}

func (*noting) Room() Room   { return Begins }
func (n *noting) Bytes() int { return appendBytes(n.note.Appends) }

// Apply implements Step.
func (n *noting) Apply(rows Rows) error {
	old, err := rows.Call(n.key)
	if err != nil {
		return err
	}
	n.noted = Noted{Record: old.Observed(rows.Now())}
	tallies := tallies{rows: rows, key: n.key}
	told, err := tallies.get(n.note.Counter)
	if err != nil {
		return err
	}
	n.noted.Tally = told.tally()
	if n.noted.Record.Refused() {
		if err := appendAll(rows, n.key, n.note.Appends, n.note.Retention); err != nil {
			return err
		}
	}
	return rows.Logs(n.key, n.note.Logs, &n.noted.Logs)
}

// seeing is the step of who only looks.
type seeing struct {
	step
	stored bool // what the store holds is asked for
	seen   Seen
}

func (*seeing) Bytes() int { return 0 }

// Apply implements Step.
func (s *seeing) Apply(rows Rows) error {
	old, err := rows.Call(s.key)
	if err != nil {
		return err
	}
	s.seen = Seen{Record: old.Observed(rows.Now()), Now: rows.Now().UTC()}
	if s.stored {
		s.seen.Stored = old.raw()
	}
	return nil
}

// appendBytes is roughly how much is written to append entries: all of a log, where an
// engine keeps it in one piece.
func appendBytes(appends []Append) (n int) {
	for _, a := range appends {
		n += min(a.Keep*len(a.Entry), math.MaxUint16) + MaxLogBytes
	}
	return n
}
