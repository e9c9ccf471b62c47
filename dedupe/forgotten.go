package dedupe

import (
	"context"
	"log/slog"

	"github.com/sidecall/sidecall/tool"
)

// remember deals with a settlement that the store did not take as it is. A store
// that has forgotten the call would let it run a second time: it is claimed
// anew, in the same name, and settled as it was, also when somebody else has
// claimed it meanwhile and did not run it. A call that was found unknown and
// provably did not run may run after all. In every other case somebody else has
// decided, and that stands. why is not empty when the store had forgotten, and
// says who decided when somebody has.
func (c *courier) remember(ctx context.Context, entry Late) (verdict SettleVerdict, why string, err error) {
	s := entry.Settlement
	record, err := c.store.Lookup(ctx, s.Key)
	switch {
	case err != nil:
		return 0, "", err
	case record.State == Absent && s.State == NotRun:
		return Settled, "", nil // it may run again, as it might have before
	case record.State == Unknown && s.State == NotRun && record.Owner == s.Owner && record.Epoch == s.Epoch:
		// Somebody saw the lease run out and could not know; this process does.
		s.Resolves = true
		verdict, err = c.store.Settle(ctx, s)
		return verdict, "", err
	}
	// Claims that came later count on from one that the store still knows.
	forgotten := record.Epoch <= s.Epoch // 0 of one that is absent
	free := record.State == Absent
	if record.State == NotRun && record.Owner != s.Owner {
		// Who knows that it ran knows better than all who came later; who does not
		// know may have been resolved since.
		free = s.State == Done || s.State == Unknown && forgotten
	}
	if !free && (record.Owner != s.Owner || record.Epoch == s.Epoch) {
		return Superseded, decided(record), nil
	}
	if free { // else claimed anew in an earlier try
		admission, err := c.claimAnew(ctx, &entry)
		if err != nil {
			return 0, "", err
		}
		if record = admission.Record; admission.Verdict != Won {
			return Superseded, decided(record), nil
		}
	}
	s.Epoch = record.Epoch
	if forgotten {
		why = "forgotten"
	}
	verdict, err = c.store.Settle(ctx, s)
	return verdict, why, err
}

// claimAnew claims a call in the name of its owner, and its effect: what it has done
// does not depend on what others have, nor on how many they are.
func (c *courier) claimAnew(ctx context.Context, entry *Late) (Admission, error) {
	req := Request{
		Key: entry.Settlement.Key, Tool: entry.Claim.Tool, Effect: entry.Claim.Effect, Fingerprint: entry.Claim.Fingerprint,
		Owner: entry.Settlement.Owner, Lease: c.lease, Retention: max(entry.Settlement.Retention, c.lease),
		Draw: Draw{Counter: entry.Claim.Counter}, EffectKey: entry.EffectKey,
	}
	req.EffectKey.Allow = !req.EffectKey.none()
	admission, err := c.store.Admit(ctx, req)
	if err == nil && admission.Earlier != (Key{}) {
		req.EffectKey = EffectKey{}
		admission, err = c.store.Admit(ctx, req)
	}
	return admission, err
}

func decided(record Record) string {
	return record.State.String() + " by " + record.Owner
}

// tellRefused counts and logs what became of a settlement that went straight to
// the store and was refused at first.
func (c *courier) tellRefused(ctx context.Context, s Settlement, effect tool.Effect, verdict SettleVerdict, why string) {
	switch {
	case verdict != Settled:
		c.count.superseded.Add(1)
		c.log.Log(ctx, supersededLevel(effect), "settlement superseded: the call was decided otherwise before it ended, and nothing was overwritten",
			"call", s, "decided", why)
	case why != "":
		c.count.forgotten.Add(1)
		c.log.Error("settlement recorded anew: the store had forgotten the call, and knows it again", "call", s)
	}
}

// tellRestored counts and logs that the store had lost the claim of a call that
// is running here.
func (c *courier) tellRestored(key Key, record Record) {
	c.count.forgotten.Add(1)
	c.log.Error("claim recorded anew: the store had forgotten a running call, and another may have run it meanwhile",
		"call", Settlement{Key: key, State: record.State, Epoch: record.Epoch})
}

// supersededLevel is how bad it is that a call was decided otherwise.
func supersededLevel(effect tool.Effect) slog.Level {
	if effect.Repeatable() {
		return slog.LevelWarn // it may run again, and has
	}
	return slog.LevelError
}
