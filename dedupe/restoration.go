package dedupe

import (
	"cmp"
	"math"
	"time"
)

// Restoration is the word of an owner whose call is running that the store has
// forgotten its claim: after a failover, say, or when the store's clock has
// jumped past the retention. See Record.Restore.
type Restoration struct {
	Key Key
	// Claim is the record as it was claimed.
	Claim Record
	// Lease is how long a claim holds that is restored as one.
	Lease time.Duration
	// Retention is how long the record is remembered from now on.
	Retention time.Duration
	// EffectKey is that of the call's request: it holds the effect again, whoever
	// has been allowed to have it meanwhile.
	EffectKey EffectKey
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (r *Restoration) Validate() error {
	asked := Request{
		Key: r.Key, Tool: r.Claim.Tool, Owner: r.Claim.Owner, Lease: r.Lease, Retention: r.Retention,
		Charges: r.Claim.Charges, EffectKey: r.EffectKey,
	}
	return cmp.Or(between("the epoch of a claim", r.Claim.Epoch, 1, math.MaxInt64), asked.Validate())
}

// Restore applies a restoration to a record at an instant of the store's clock;
// restored says that it was absent. It overwrites nothing: whoever has claimed
// the call meanwhile has it.
//
//	record   effect           →
//	absent   may repeat       CLAIMED, same owner and epoch, lease from now
//	absent   non_idempotent   UNKNOWN, same owner and epoch
//	there    whatever         as it is
//
// Nobody can know whether another has run the call meanwhile and was forgotten
// too. So the owner of what must not be repeated starts nothing any more, but it
// can still say what became of the call.
func (r Record) Restore(back Restoration, now time.Time) (next Record, restored bool) {
	if r.State != Absent {
		return r, false
	}
	next = back.Claim
	next.State, next.LeaseUntil, next.FinishedAt = Claimed, now.Add(back.Lease), time.Time{}
	next.Attempts, next.Result = 0, nil
	if !next.Effect.Repeatable() {
		next = next.lost(now)
	}
	return next, true
}
