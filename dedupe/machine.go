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
	return step{Step: Step{Call: key, Room: room, Bytes: StoredBytes + keyBytes(&key) + bytes}}
}

// receiptBytes is roughly how much a receipt writes.
const receiptBytes = 1 << 10

// do has an engine do a step, unless its request is invalid.
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
	s := &settling{settlement: end, step: m.step(end.Key, Frees, len(end.Result)+appendBytes(end.Appends))}
	s.Apply = s.apply
	s.WholeTenant = end.Frees.WholeTenant || end.Claim != nil && end.Claim.EffectKey.WholeTenant
	if end.Receipt {
		s.Bytes += receiptBytes
	}
	if end.Output != nil {
		s.Room, s.Bytes = Keeps, s.Bytes+len(end.Output.Data)
	}
	return s
}

// Renew implements Store.
func (m Machine) Renew(ctx context.Context, renewal Renewal) (record Record, restored bool, err error) {
	s := m.settling(Settlement{Key: renewal.Key, Claim: &renewal.Claim, Retention: renewal.Retention})
	s.renewal = &renewal
	if err := m.do(ctx, &s.Step, renewal.Validate()); err != nil {
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

// Receipts implements Store.
func (m Machine) Receipts(ctx context.Context, tenant, conversation string, from int64) (Chain, error) {
	s := &chaining{step: m.step(tool.CallID{Tenant: tenant, Conversation: conversation, ID: "."}, Begins, 0), from: from}
	s.Apply = s.apply
	return AnswerOf(&s.chain, m.Do(ctx, &s.Step))
}
