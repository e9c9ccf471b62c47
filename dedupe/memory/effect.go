package memory

import (
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

func effectOf(key dedupe.Key, e *dedupe.EffectKey) effectKey {
	if e.WholeTenant {
		return effectKey{tenant: key.Tenant, whole: true, hash: e.Print}
	}
	return effectKey{tenant: key.Tenant, conversation: key.Conversation, hash: e.Print}
}

// holding returns who holds an effect as of now.
func (s *Store) holding(name effectKey, now time.Time) []dedupe.Key {
	h := s.effects[name]
	if !now.Before(h.expires) {
		return nil
	}
	return h.keys
}

// contend compares a request that would be Won with those who hold its effect; see
// dedupe.Contend.
func (s *Store) contend(req *dedupe.Request, now time.Time) (refusal *dedupe.Admission, holds []dedupe.Key) {
	keys := s.holding(effectOf(req.Key, &req.EffectKey), now)
	held := make([]dedupe.Holder, len(keys))
	for i, key := range keys {
		held[i] = dedupe.Holder{Key: key, Record: s.find(key, now).Record}
	}
	return dedupe.Contend(req, held, now)
}

// hold stores who holds an effect. None gives way to others: as long as there is
// room for the record of a call there is for its effect, of which there are two at
// the most for each record in the time that both are remembered.
func (s *Store) hold(name effectKey, keys []dedupe.Key, keep time.Duration, now time.Time) {
	expires := now.Add(keep)
	if _, known := s.effects[name]; !known {
		s.effectQueue.push(expires, name)
	}
	s.effects[name] = holders{keys, expires}
}

// free takes a call out of those that hold an effect.
func (s *Store) free(key dedupe.Key, e *dedupe.EffectKey, now time.Time) {
	name := effectOf(key, e)
	if h, known := s.effects[name]; known && now.Before(h.expires) {
		h.keys = dedupe.Freed(h.keys, key)
		s.effects[name] = h
	}
}
