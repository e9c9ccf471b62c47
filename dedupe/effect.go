package dedupe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// EffectKey is the identity of what a call does: the same payment ordered under a new id has
// another Key, and the same EffectKey. The zero value is that of a call without one.
//
// A store keeps for each the calls that hold it, the newest first, by their keys alone. What has
// become of them is asked of their records, at the step that asks for the right to run. So a
// resolution, a lease that runs out, a restart or a late owner need tell nobody.
type EffectKey struct {
	Print       [32]byte      // the hash of the tool and of the arguments that make the effect
	WholeTenant bool          // it is the same in all conversations of the tenant, else in one
	Window      time.Duration // for which it may not be had again; at most the retention
	// Allow says that somebody has decided to have it once more. Such a call holds the effect
	// from then on, beside those before it.
	Allow bool
}

// MaxHolders bounds the calls that hold an effect. Another one is not allowed before some of
// them are decided.
const MaxHolders = 8

// MaxAfter bounds the calls that one goes on with: it holds the effect beside them.
const MaxAfter = MaxHolders - 1

func (k *EffectKey) none() bool { return *k == EffectKey{} }

// Keep is how long the holders of an effect are remembered after a claim: its call ends within
// the retention, and its window begins then.
func (k *EffectKey) Keep(retention time.Duration) time.Duration { return retention + k.Window }

func (k *EffectKey) validate(key tool.CallID, retention time.Duration) error {
	if k.none() {
		return nil
	}
	return cmp.Or(between("the window of an effect", k.Window, time.Millisecond, retention), holds(&key, !k.WholeTenant))
}

// contends reports whether a request has to be compared with the holders of its effect. No person
// is asked for one that has happened.
func (req *Request) contends(r Record, verdict Verdict) bool {
	return (verdict == Won || verdict == AwaitsApproval && r.State != Held) &&
		!req.EffectKey.none() && !(r.State == Claimed && r.Owner == req.Owner)
}

// Contend compares a request that would be Won with the holders of its effect, the newest
// first. It returns the refusal, or nil and who holds the effect once the request has its claim.
//
//	holder                                              another call of the effect →
//	DONE, within the window                             DuplicateEffect
//	CLAIMED, lease running                              EffectInFlight
//	UNKNOWN, within the window                          EffectUnknown
//	CLAIMED, lease out, or NOT_RUN, HELD or CLOSED,     EffectUnknown
//	and may have run
//	everything else, and DONE of the request's After    may run
//
// What is done is said before what is under way, and that before what nobody knows.
func Contend(req *Request, holders []Listed, now time.Time) (refusal *Admission, holds []tool.CallID) {
	var worst Listed
	verdict := Verdict(0)
	holds = []tool.CallID{req.Key}
	for _, h := range holders {
		v := h.Record.hinders(req, now)
		if h.Key == req.Key || v == 0 {
			continue
		}
		after := v == DuplicateEffect && slices.Contains(req.After, h.Key)
		if after || v != DuplicateEffect {
			holds = append(holds, h.Key)
		}
		if after {
			continue
		}
		// Of those that are done, the last one outlasts the others.
		outlasts := verdict == DuplicateEffect && v == verdict && worst.Record.FinishedAt.Before(h.Record.FinishedAt)
		if verdict == 0 || v < verdict || outlasts {
			worst, verdict = h, v
		}
	}
	if verdict == DuplicateEffect {
		holds = append(holds, worst.Key)
	}
	if verdict != 0 && (!req.EffectKey.Allow || len(holds) > MaxHolders) {
		return &Admission{Verdict: verdict, Record: worst.Record, Earlier: worst.Key}, nil
	}
	return nil, holds
}

// hinders says what the record of a call that holds an effect means for a request of another; 0
// when it may run.
func (r Record) hinders(req *Request, now time.Time) Verdict {
	verdict, end := EffectUnknown, r.FinishedAt
	harmless := r.Effect.Harmless() && req.Effect.Harmless() // to have it once more changes nothing, whatever the id
	switch r.State {
	case Absent:
		return 0
	case Done:
		verdict = DuplicateEffect
	case Unknown:
	case NotRun, Closed, Held:
		// Under another id it would be no repetition: the upstream knows it by another key.
		if !r.MayHaveRun() || harmless {
			return 0
		}
	case Claimed:
		if now.Before(r.LeaseUntil) && !succeeds(req.Owner, r.Owner) {
			return EffectInFlight
		}
		if harmless {
			return 0
		}
		end = r.LeaseUntil
	}
	if !now.Before(end.Add(req.EffectKey.Window)) {
		return 0
	}
	return verdict
}

// Taken returns who holds an effect once the call of key does too, whatever the others have done.
func Taken(holders []tool.CallID, key tool.CallID) []tool.CallID {
	if slices.Contains(holders, key) {
		return holders
	}
	holders = slices.Insert(slices.Clone(holders), 0, key)
	return holders[:min(len(holders), MaxHolders)]
}

// encodeHolders returns who holds an effect as it stands in its value: the parts of each key.
func encodeHolders(keys []tool.CallID) string {
	var body []byte
	for _, k := range keys {
		for _, part := range [...]string{k.Tenant, k.Conversation, k.Turn, k.ID} {
			body = appendText(body, part)
		}
	}
	return string(body)
}

func decodeHolders(body string) (keys []tool.CallID, err error) {
	for r := (reader{rest: []byte(body)}); len(r.rest) > 0; {
		key := tool.CallID{Tenant: string(r.text()), Conversation: string(r.text()), Turn: string(r.text()), ID: string(r.text())}
		if r.short {
			return nil, fmt.Errorf("%w: a list of the calls that hold an effect is cut short", ErrCorrupt)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
