package dedupe

import (
	"context"

	"github.com/sidecall/sidecall/internal/tool"
)

// Machine is the state machine of calls over an engine: what every Store does, in one
// place. A store embeds it, and adds what only it can do.
type Machine struct{ Engine }

// step returns the one of a call, which writes its record and some bytes more.
func (Machine) step(key tool.CallID, room Room, bytes int) step {
	return step{key: key, room: room, bytes: StoredBytes + keyBytes(&key) + bytes}
}

// receiptBytes is roughly how much a receipt writes.
const receiptBytes = 1 << 10

// do has an engine do a step, unless its request is invalid.
func (m Machine) do(ctx context.Context, s Step, invalid error) error {
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
	if req.Hold != nil {
		s.bytes += len(req.Hold.Result)
	}
	if s.wide = req.EffectKey.WholeTenant; !req.EffectKey.none() {
		s.bytes += MaxHolders * (StoredBytes + keyBytes(&req.Key))
	}
	return AnswerOf(&s.admission, m.do(ctx, s, s.req.Validate()))
}

// Settle implements Store.
func (m Machine) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	s := m.settling(settlement)
	return AnswerOf(&s.verdict, m.do(ctx, s, s.settlement.Validate()))
}

func (m Machine) settling(end Settlement) *settling {
	s := &settling{settlement: end, step: m.step(end.Key, Frees, len(end.Result)+appendBytes(end.Appends))}
	s.wide = end.Frees.WholeTenant || end.Claim != nil && end.Claim.EffectKey.WholeTenant
	if end.Receipt {
		s.bytes += receiptBytes
	}
	if end.Output != nil {
		s.room, s.bytes = Keeps, s.bytes+len(end.Output.Data)
	}
	return s
}

// Renew implements Store.
func (m Machine) Renew(ctx context.Context, renewal Renewal) (record Record, restored bool, err error) {
	s := m.settling(Settlement{Key: renewal.Key, Claim: &renewal.Claim, Retention: renewal.Retention})
	s.renewal = &renewal
	if err := m.do(ctx, s, renewal.Validate()); err != nil {
		return Record{}, false, err
	}
	return s.next, s.verdict == SettledAnew, nil
}

// Lookup implements Store.
func (m Machine) Lookup(ctx context.Context, key tool.CallID) (Record, error) {
	seen, err := m.See(ctx, key)
	return seen.Record, err
}

// See returns the record of a call, for who changes it if it is still that one.
func (m Machine) See(ctx context.Context, key tool.CallID) (Known, error) {
	s := &noting{step: m.step(key, Begins, 0)}
	return AnswerOf(&s.known, m.Do(ctx, s))
}

// Note implements Store.
func (m Machine) Note(ctx context.Context, n Note) (Known, error) {
	s := &noting{step: m.step(n.Key, Begins, appendBytes(n.Appends)), note: n}
	return AnswerOf(&s.known, m.do(ctx, s, s.note.Validate()))
}

// Receipts implements Store.
func (m Machine) Receipts(ctx context.Context, tenant, conversation string, from int64) (Chain, error) {
	s := &chaining{step: m.step(tool.CallID{Tenant: tenant, Conversation: conversation, ID: "."}, Begins, 0), from: from}
	return AnswerOf(&s.chain, m.Do(ctx, s))
}
