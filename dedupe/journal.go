package dedupe

import (
	"context"
	"time"
)

// Journal keeps, durably and on this machine, the settlements that their store
// could not take when they were due: what they tell of has happened, so it must
// not be lost. All methods are safe for concurrent use.
type Journal interface {
	// Append makes an entry durable before it returns nil. ErrFull means that
	// a bound is reached, ErrInvalid that no store would ever take it. With
	// every other error, that of ctx too, nobody knows whether it was kept.
	Append(ctx context.Context, late Late) error
	// Replay hands out the entries that wait, oldest first, several at a time.
	// An entry for which settle returns nil is done; the others stay. It goes
	// on as long as settle takes some of them, and returns an error of settle
	// when entries are left, nil when none is.
	Replay(ctx context.Context, settle func(context.Context, Late) error) error
	// Find returns the newest entry of a key that waits; false when none does.
	Find(key Key) (Late, bool)
	// Done ends an entry; false when it had ended already.
	Done(seq uint64) bool
	// Waiting is how many entries wait.
	Waiting() int
	// Damaged is how many damages of the file were found since it was opened.
	Damaged() int64
	// Close ends the journal; what waits stays in its file.
	Close() error
}

// Late is a settlement that waits in a journal.
type Late struct {
	// Seq numbers the entries of an open journal, which gives it out.
	Seq uint64
	// Settlement is what the store is to be told.
	Settlement Settlement
	// Claim is the record as it was claimed: Tool, Effect, Fingerprint and
	// StartedAt of it are kept; owner and epoch are the settlement's.
	Claim Record
	// EffectKey is what the call does. No journal keeps it: a store that has forgotten
	// the call is told of it by a process that lives, and else not.
	EffectKey EffectKey
	// EndedAt is when the call ended, by this machine's clock. It decides
	// nothing.
	EndedAt time.Time
}

// Record is the record of the call as the store will hold it.
func (l Late) Record() Record {
	r := l.Claim
	r.State, r.Owner, r.Epoch = Claimed, l.Settlement.Owner, l.Settlement.Epoch
	r, _, _ = r.Settle(l.Settlement, l.EndedAt)
	return r
}
