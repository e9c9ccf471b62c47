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

// do does a step, unless its request is invalid.
func (m Machine) do(ctx context.Context, s Step, invalid error) error {
	if invalid != nil {
		return invalid
	}
	return m.Do(ctx, s)
}

// Admit implements Store.
func (m Machine) Admit(ctx context.Context, req Request) (Admission, error) {
	s := &admitting{step: m.step(req.Key, Begins, len(req.Draw.Counter)+len(req.Details)+indexBytes(&req.Key, req.Terms)), req: req}
	if req.Hold != nil {
		s.bytes += len(req.Hold.Result)
	}
	s.wide = req.EffectKey.WholeTenant
	if !req.EffectKey.none() {
		s.bytes += MaxHolders * (StoredBytes + keyBytes(&req.Key))
	}
	if err := m.do(ctx, s, s.req.Validate()); err != nil {
		return Admission{}, err
	}
	return s.admission, nil
}

// Settle implements Store.
func (m Machine) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	s := &settling{settlement: settlement}
	s.step = m.step(settlement.Key, Frees, len(settlement.Result)+appendBytes(settlement.Appends))
	if settlement.Receipt {
		s.bytes += receiptBytes
	}
	s.wide = settlement.Frees.WholeTenant || settlement.Claim != nil && settlement.Claim.EffectKey.WholeTenant
	if settlement.Output != nil {
		s.room, s.bytes = Keeps, s.bytes+len(settlement.Output.Data)
	}
	if err := m.do(ctx, s, s.settlement.Validate()); err != nil {
		return 0, err
	}
	return s.verdict, nil
}

// Renew implements Store.
func (m Machine) Renew(ctx context.Context, renewal Renewal) (record Record, restored bool, err error) {
	s := &renewing{step: m.step(renewal.Key, Frees, 0), renewal: renewal}
	s.wide = renewal.Claim.EffectKey.WholeTenant
	if err := m.do(ctx, s, s.renewal.Validate()); err != nil {
		return Record{}, false, err
	}
	return s.next, s.restored, nil
}

// Lookup implements Store.
func (m Machine) Lookup(ctx context.Context, key tool.CallID) (Record, error) {
	seen, err := m.See(ctx, key)
	return seen.Record, err
}

// See returns the record of a call, for who changes it if it is still that one.
func (m Machine) See(ctx context.Context, key tool.CallID) (Known, error) {
	s := &noting{step: step{key: key}}
	if err := m.Look(ctx, s); err != nil {
		return Known{}, err
	}
	return s.known, nil
}

// Note implements Store.
func (m Machine) Note(ctx context.Context, n Note) (Known, error) {
	s := &noting{step: m.step(n.Key, Begins, appendBytes(n.Appends)), note: n}
	if err := m.do(ctx, s, s.note.Validate()); err != nil {
		return Known{}, err
	}
	return s.known, nil
}
