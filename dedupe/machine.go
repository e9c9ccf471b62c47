package dedupe

import (
	"context"
	"time"
)

// Machine is the state machine of calls over an engine: what every Store does, in one
// place. A store embeds it, and adds what only it can do.
type Machine struct{ Engine }

// Admit implements Store.
func (m Machine) Admit(ctx context.Context, req Request) (Admission, error) {
	if err := req.Validate(); err != nil {
		return Admission{}, err
	}
	s := &admitting{step: step{req.Key}, req: req}
	if err := m.Do(ctx, s); err != nil {
		return Admission{}, err
	}
	return s.admission, nil
}

// Settle implements Store.
func (m Machine) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	if err := settlement.Validate(); err != nil {
		return 0, err
	}
	s := &settling{step: step{settlement.Key}, settlement: settlement}
	if err := m.Do(ctx, s); err != nil {
		return 0, err
	}
	return s.verdict, nil
}

// Renew implements Store.
func (m Machine) Renew(ctx context.Context, key Key, owner string, epoch int64, lease time.Duration) (bool, error) {
	s := &renewing{step: step{key}, owner: owner, epoch: epoch, lease: lease}
	if err := m.Do(ctx, s); err != nil {
		return false, err
	}
	return s.ok, nil
}

// Restore implements Store.
func (m Machine) Restore(ctx context.Context, back Restoration) (record Record, restored bool, err error) {
	if err := back.Validate(); err != nil {
		return Record{}, false, err
	}
	s := &restoring{step: step{back.Key}, back: back}
	if err := m.Do(ctx, s); err != nil {
		return Record{}, false, err
	}
	return s.record, s.restored, nil
}

// Lookup implements Store.
func (m Machine) Lookup(ctx context.Context, key Key) (Record, error) {
	s := &seeing{step: step{key}}
	if err := m.Look(ctx, s); err != nil {
		return Record{}, err
	}
	return s.seen.Record, nil
}

// See returns the record of a call, for who changes it if it is still that one.
func (m Machine) See(ctx context.Context, key Key) (Seen, error) {
	s := &seeing{step: step{key}, stored: true}
	if err := m.Look(ctx, s); err != nil {
		return Seen{}, err
	}
	return s.seen, nil
}

// Note implements Store.
func (m Machine) Note(ctx context.Context, n Note) (Noted, error) {
	if err := n.Validate(); err != nil {
		return Noted{}, err
	}
	s := &noting{step: step{n.Key}, note: n}
	if err := m.Do(ctx, s); err != nil {
		return Noted{}, err
	}
	return s.noted, nil
}
