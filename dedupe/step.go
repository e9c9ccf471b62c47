package dedupe

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

type step struct {
	Step

	rows Rows
	now  time.Time
	keep time.Duration // how long what is written is remembered
	// tallies are those that the step has read, in places: of its draw, and of a claim before it.
	tallies []counted
	places  [2]counted
}

func (s *step) begin(rows Rows, keep time.Duration) Stored {
	s.rows, s.now, s.keep, s.tallies = rows, rows.Now(), keep, s.places[:0]
	return rows.Call(s.Call)
}

func read[T any](rows Rows, name ValueKey, decode func(body string) (T, error)) T {
	what, err := decode(rows.Value(name))
	rows.Fail(err)
	return what
}

// set stores the record, by terms if there are any, and the tallies that have changed.
func (s *step) set(record *Record, terms []Term) {
	s.rows.SetCall(s.Call, record, s.keep, terms)
	for i := range s.tallies {
		if c := &s.tallies[i]; c.changed {
			s.rows.SetValue(tallyKey(s.Call, c.counter), c.encode(), s.keep)
		}
	}
}

func (s *step) append(entries []Append) {
	for _, entry := range entries {
		s.rows.Append(s.Call, entry, s.keep)
	}
}

type counted struct {
	Tally
	counter        string
	found, changed bool
}

// noTally is the tally of no counter, which nobody changes.
var noTally counted

func (s *step) tally(counter string) *counted {
	if counter == "" {
		return &noTally
	}
	if i := slices.IndexFunc(s.tallies, func(c counted) bool { return c.counter == counter }); i >= 0 {
		return &s.tallies[i]
	}
	body := s.rows.Value(tallyKey(s.Call, counter))
	tally, err := decodeTally(body)
	s.rows.Fail(err)
	s.tallies = append(s.tallies, counted{Tally: tally, counter: counter, found: body != ""})
	return &s.tallies[len(s.tallies)-1]
}

// move counts the call in tallies, which are then kept for longer. What is given back to one
// that is not there is dropped.
func (s *step) move(old, next *Record) {
	back, made := old.Moves(*next)
	if c := s.tally(back); c.found {
		c.Tally, c.changed = c.Add(-1, s.now.UTC()), true
	}
	if made != "" {
		c := s.tally(made)
		c.Tally, c.changed = c.Add(1, s.now.UTC()), true
	}
}

type admitting struct {
	step
	req       Request
	admission Admission
}

func (a *admitting) apply(rows Rows) {
	old := a.begin(rows, a.req.Retention)
	holds, changed := a.decide(&old)
	told := &a.admission
	a.Binds = told.Verdict == Won
	switch {
	case changed:
		a.set(&told.Record, a.req.Terms)
	case told.Verdict == InFlight:
		rows.Awaited(a.Call)
	case told.Verdict == EffectInFlight:
		rows.Awaited(told.Earlier)
	}
	if holds != nil {
		rows.SetValue(effectKey(a.Call, &a.req.EffectKey), encodeHolders(holds), a.req.EffectKey.Keep(a.keep))
	}
	if a.Binds || told.Verdict == MayRun {
		rows.Logs(a.Call, a.req.Logs, &told.Logs)
	}
	if a.Binds && a.req.Receipt { // so that an engine that goes by what it has read has the head when the call settles
		rows.Value(receiptKey(&a.Call, 0))
	}
	if told.Verdict != Exceeded { // which tells what stands in the way
		told.Tally = a.tally(a.req.Draw.Counter).Tally
	}
}

// decide answers the request: by the state machine, the effect of the request and the ceilings
// of its prompt. It says who holds the effect from then on, when that changes, and whether the
// record does.
func (a *admitting) decide(old *Stored) (holds []tool.CallID, changed bool) {
	req := &a.req
	next, verdict, changed := old.Admit(*req, a.now)
	a.admission = Admission{Verdict: verdict, Record: next}
	if verdict == MayRun {
		a.admission.Record = old.Observed(a.now)
	}
	if req.contends(old.Record, verdict) {
		refusal, holders := Contend(req, a.contenders(), a.now)
		if refusal != nil {
			a.admission = *refusal
			return nil, false
		}
		if verdict == Won {
			holds = holders
		}
	}
	if req.Draw.Counter != "" {
		drawn := a.tally(req.Draw.Counter)
		after, exceeded := req.Draw.Bill(old.Record, next, verdict, drawn.Tally, a.now.UTC())
		if exceeded != nil {
			a.admission = *exceeded
			return nil, false
		}
		drawn.Tally, drawn.changed = after, after != drawn.Tally
	}
	a.move(&old.Record, &next)
	return holds, changed
}

func (a *admitting) contenders() []Listed {
	keys := read(a.rows, effectKey(a.Call, &a.req.EffectKey), decodeHolders)
	held := make([]Listed, len(keys))
	for i, key := range keys {
		held[i] = Listed{Key: key, Record: a.rows.Call(key).Record}
	}
	return held
}

// settling is the step of a settlement, and of a renewal, which says that the call runs still.
type settling struct {
	step
	settlement Settlement
	renewal    *Renewal // whose key, claim and retention are the settlement's
	next       Record
	verdict    SettleVerdict
}

func (s *settling) apply(rows Rows) {
	end := &s.settlement
	old := s.begin(rows, end.Retention)
	changed := true
	if s.renewal != nil {
		s.next, s.verdict = old.Renew(s.renewal, s.now)
		s.keep = cmp.Or(old.Retention, s.keep)
	} else {
		s.next, s.verdict, changed = old.Settle(*end, s.now)
	}
	s.Binds = s.verdict != Superseded
	if !s.Binds {
		return
	}
	if changed {
		s.move(&old.Record, &s.next)
		if end.Tokens > 0 {
			if spent := s.tally(s.next.Counter); spent.found {
				spent.Tally, spent.changed = spent.Spend(end.Tokens), true // also kept for longer
			}
		}
		var terms []Term
		if end.Claim != nil && (old.State == NotRun || s.next.Owner != old.Owner) { // others may have had it since
			s.hold(&end.Claim.EffectKey)
			terms = end.Claim.Terms
		}
		s.set(&s.next, terms)
		s.receipt(old.State)
		s.append(end.Appends)
	} else if old.State != Absent { // said again: Binds holds of it when it is written again
		rows.SetCall(s.Call, &s.next, 0, nil)
	}
	if s.next.State == Held && !s.next.MayHaveRun() && end.Claim != nil { // it claims it anew once it is allowed
		s.free(&end.Claim.EffectKey)
	}
	s.free(&end.Frees)
	if end.Output != nil {
		rows.Keep(s.Call.Tenant, end.Output)
	}
}

// hold makes the call one of those that hold its effect again.
func (s *step) hold(e *EffectKey) {
	if !e.none() {
		name := effectKey(s.Call, e)
		s.rows.SetValue(name, encodeHolders(Taken(read(s.rows, name, decodeHolders), s.Call)), e.Keep(s.keep))
	}
}

// free takes the call out of those that hold an effect.
func (s *step) free(e *EffectKey) {
	if e.none() {
		return
	}
	name := effectKey(s.Call, e)
	if keys := read(s.rows, name, decodeHolders); slices.Contains(keys, s.Call) {
		keys = slices.DeleteFunc(keys, func(k tool.CallID) bool { return k == s.Call })
		s.rows.SetValue(name, encodeHolders(keys), 0)
	}
}

// noting is the step of a note, and of who only looks.
type noting struct {
	step
	note  Note
	known Known
}

func (n *noting) apply(rows Rows) {
	old := n.begin(rows, n.note.Retention)
	n.known = Known{Record: old.Observed(n.now), Now: n.now.UTC(), Tally: n.tally(n.note.Counter).Tally, stored: old}
	if n.known.Record.State.Refused() {
		n.append(n.note.Appends)
	}
	rows.Logs(n.Call, n.note.Logs, &n.known.Logs)
	if n.note.Receipts {
		n.known.Chain = chainOf(rows, &n.Call, n.note.From)
	}
}

// appendBytes is roughly how much is written to append entries, where a log is one piece.
func appendBytes(appends []Append) (n int) {
	for _, a := range appends {
		n += min(a.Keep*len(a.Entry), math.MaxUint16) + MaxLogBytes
	}
	return n
}

// Machine is the state machine of calls over an engine: what every Store does, in one
// place. A store embeds it, and adds what only it can do.
type Machine struct{ Engine }

// step returns the one of a call, which writes its record and some bytes more.
func (Machine) step(key tool.CallID, demand Demand, bytes int) step {
	return step{Step: Step{Call: key, Demand: demand, Bytes: StoredBytes + keyBytes(&key) + bytes}}
}

// receiptBytes is roughly how much a receipt writes.
const receiptBytes = 1 << 10

func (m Machine) do(ctx context.Context, s *Step, invalid error) error {
	if invalid != nil {
		return invalid
	}
	return m.Do(ctx, s)
}

// AnswerOf is what a step has found, unless it failed: then it may still be applied.
func AnswerOf[T any](found *T, err error) (answer T, failed error) {
	if err == nil {
		answer = *found
	}
	return answer, err
}

// Admit implements Store.
func (m Machine) Admit(ctx context.Context, req Request) (Admission, error) {
	s := &admitting{step: m.step(req.Key, Begins, len(req.Details)+len(req.Terms)*(len(Term{})+keyBytes(&req.Key))), req: req}
	s.Apply = s.apply
	if req.Hold != nil {
		s.Bytes += len(req.Hold.Result)
	}
	if s.WholeTenant = req.EffectKey.WholeTenant; !req.EffectKey.none() {
		s.Bytes += MaxHolders * (StoredBytes + keyBytes(&req.Key))
	}
	return AnswerOf(&s.admission, m.do(ctx, &s.Step, s.req.Validate()))
}

// Settle implements Store.
func (m Machine) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	s := m.settling(settlement)
	return AnswerOf(&s.verdict, m.do(ctx, &s.Step, s.settlement.Validate()))
}

func (m Machine) settling(end Settlement) *settling {
	s := &settling{settlement: end, step: m.step(end.Key, Frees, receiptBytes+len(end.Result)+appendBytes(end.Appends))}
	s.Apply = s.apply
	s.WholeTenant = end.Frees.WholeTenant || end.Claim != nil && end.Claim.EffectKey.WholeTenant
	if end.Output != nil {
		s.Demand, s.Bytes = Keeps, s.Bytes+len(end.Output.Data)
	}
	return s
}

// Renew implements Store.
func (m Machine) Renew(ctx context.Context, renewal Renewal) (record Record, restored bool, err error) {
	s := m.settling(Settlement{Key: renewal.Key, Claim: &renewal.Claim, Retention: renewal.Retention})
	s.renewal = &renewal
	if err := m.Do(ctx, &s.Step); err != nil {
		return Record{}, false, err
	}
	return s.next, s.verdict == SettledAnew, nil
}

// Note implements Store.
func (m Machine) Note(ctx context.Context, n Note) (Known, error) {
	s := &noting{step: m.step(n.Key, Begins, appendBytes(n.Appends)), note: n}
	s.Apply = s.apply
	return AnswerOf(&s.known, m.do(ctx, &s.Step, s.note.Validate()))
}
