package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Who holds an effect stands on a sheet of the conversation, or of the tenant: the
// encoded keys of the calls, the newest first, each with its length in 2 bytes
// before it.
const sheetEffect = "e"

func effectKey(key dedupe.Key, e *dedupe.EffectKey) []byte {
	b := make([]byte, 0, len(key.Tenant)+len(key.Conversation)+len(e.Print)+9)
	if e.WholeTenant { // one component less than any other sheet has
		return appendComponents(b, key.Tenant, sheetEffect, string(e.Print[:]))
	}
	return appendComponents(b, key.Tenant, key.Conversation, sheetEffect, string(e.Print[:]))
}

// holding returns who holds an effect as of now.
func (t *txn) holding(name []byte) (keys []dedupe.Key, err error) {
	body, err := t.sheet(name)
	for err == nil && len(body) > 0 {
		size := 0
		if len(body) >= 2 {
			size = 2 + int(binary.BigEndian.Uint16(body))
		}
		if size < 2 || size > len(body) {
			return nil, fmt.Errorf("%w: a list of the calls that hold an effect is cut short", dedupe.ErrCorrupt)
		}
		var key dedupe.Key
		key, err = decodeKey(bytes.Clone(body[2:size]))
		keys, body = append(keys, key), body[size:]
	}
	return keys, err
}

// hold stores who holds an effect.
func (t *txn) hold(name []byte, keys []dedupe.Key, keep time.Duration) error {
	var body []byte
	for _, key := range keys {
		encoded := encodeKey(key)
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(encoded))), encoded...)
	}
	return t.turn(name, body, keep)
}

// contend compares a request that would be Won with those who hold its effect; see
// dedupe.Contend.
func (t *txn) contend(req *dedupe.Request) (refusal *dedupe.Admission, holds []dedupe.Key, err error) {
	keys, err := t.holding(effectKey(req.Key, &req.EffectKey))
	if err != nil {
		return nil, nil, err
	}
	held := make([]dedupe.Holder, len(keys))
	for i, key := range keys {
		e, err := t.find(encodeKey(key))
		if err == nil {
			err = t.loadResult(&e)
		}
		if err != nil {
			return nil, nil, err
		}
		held[i] = dedupe.Holder{Key: key, Record: e.Record}
	}
	refusal, holds = dedupe.Contend(req, held, t.now)
	return refusal, holds, nil
}

// free takes a call out of those that hold an effect.
func (t *txn) free(key dedupe.Key, e *dedupe.EffectKey) error {
	if *e == (dedupe.EffectKey{}) {
		return nil
	}
	name := effectKey(key, e)
	b := t.sheets.Get(name)
	if b == nil {
		return nil
	}
	expires, _, err := decodeSheet(name, b)
	if err != nil || !t.now.Before(expires) {
		return err
	}
	keys, err := t.holding(name)
	if err != nil {
		return err
	}
	return t.hold(name, dedupe.Freed(keys, key), expires.Sub(t.now))
}

// regain makes a call that was restored hold its effect again.
func (t *txn) regain(back *dedupe.Restoration) error {
	if back.EffectKey == (dedupe.EffectKey{}) {
		return nil
	}
	name := effectKey(back.Key, &back.EffectKey)
	keys, err := t.holding(name)
	if err != nil {
		return err
	}
	return t.hold(name, dedupe.Held(keys, back.Key), back.EffectKey.Keep(back.Retention))
}
