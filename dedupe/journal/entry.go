package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// layout is the first byte of an entry. Another layout gets another number.
const layout = 1

// encode returns an entry as the body of a frame: the key, the record of the call
// as it is settled, in the layout that stores have, its result and its output.
// Sequence numbers belong to an open journal and are not kept.
func encode(late dedupe.Late) []byte {
	s := &late.Settlement
	b := make([]byte, 0, 256+len(s.Result)+outputBytes(s.Output))
	b = append(b, layout)
	for _, part := range [...]string{s.Key.Tenant, s.Key.Conversation, s.Key.Turn, s.Key.ID} {
		b = appendBytes(b, part)
	}
	settled := stored(&late)
	b = settled.AppendTo(b)
	b = appendBytes(b, s.Result)
	if s.Output == nil {
		return append(b, 0)
	}
	b = append(b, 1, flag(s.Output.Complete))
	b = binary.AppendVarint(b, int64(s.Output.TTL))
	b = appendBytes(b, s.Output.Ref)
	return appendBytes(b, s.Output.Data)
}

// stored is the record of an entry as a store would keep it.
func stored(late *dedupe.Late) dedupe.Stored {
	s, c := &late.Settlement, &late.Claim
	return dedupe.Stored{Retention: s.Retention, Record: dedupe.Record{
		State: s.State, Epoch: s.Epoch, Owner: s.Owner, Attempts: s.Attempts,
		Tool: c.Tool, Effect: c.Effect, Fingerprint: c.Fingerprint, Counter: c.Counter, StartedAt: c.StartedAt, FinishedAt: late.EndedAt,
	}}
}

// fill is the inverse of stored.
func fill(late *dedupe.Late, settled dedupe.Stored) {
	s, r := &late.Settlement, settled.Record
	s.Owner, s.Epoch, s.State, s.Attempts, s.Retention = r.Owner, r.Epoch, r.State, r.Attempts, settled.Retention
	late.EndedAt = r.FinishedAt
	r.State, r.Attempts, r.FinishedAt, r.LeaseUntil = dedupe.Claimed, 0, time.Time{}, time.Time{}
	late.Claim = r
}

func outputBytes(o *dedupe.Output) int {
	if o == nil {
		return 0
	}
	return len(o.Data)
}

func appendBytes[T string | []byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// decode reads the body of a frame. The entry shares its memory.
func decode(body []byte) (late dedupe.Late, err error) {
	r := reader{rest: body}
	switch got := r.byte(); {
	case r.short:
	case got == layout:
		err = r.settled(&late)
	default:
		return dedupe.Late{}, fmt.Errorf("an entry of layout %d, and only %d is known", got, layout)
	}
	s := &late.Settlement
	s.Result = r.bytes()
	if r.byte() == 1 {
		complete := r.byte() == 1
		s.Output = &dedupe.Output{Complete: complete, TTL: time.Duration(r.varint()), Ref: string(r.bytes()), Data: r.bytes()}
	}
	switch {
	case err != nil:
		return dedupe.Late{}, err
	case r.short:
		return dedupe.Late{}, errors.New("an entry that ends too early")
	case len(r.rest) > 0:
		return dedupe.Late{}, fmt.Errorf("an entry with %d bytes too many", len(r.rest))
	}
	return late, validate(&late)
}

// settled reads the key and the record of an entry.
func (r *reader) settled(late *dedupe.Late) error {
	key := &late.Settlement.Key
	for _, part := range [...]*string{&key.Tenant, &key.Conversation, &key.Turn, &key.ID} {
		*part = string(r.bytes())
	}
	if r.short {
		return nil
	}
	settled, rest, err := dedupe.DecodeStored(r.rest)
	r.rest = rest
	fill(late, settled)
	return err
}

// validate reports what no store would take.
func validate(late *dedupe.Late) error {
	s := &late.Settlement
	if s.Resolves || s.Tokens != 0 || len(s.Appends) > 0 || s.Frees != (dedupe.EffectKey{}) {
		return fmt.Errorf("%w: a journal keeps nothing of the loop around a call, and no resolution", dedupe.ErrInvalid)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	settled := stored(late)
	if err := settled.Verify(); err != nil {
		return fmt.Errorf("%w: the settlement of no claim: %v", dedupe.ErrInvalid, err) //nolint:errorlint // nothing is corrupt yet
	}
	return nil
}

// reader takes an entry apart. Once it is short, all it returns is zero.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n uint64) []byte {
	if r.short || n > uint64(len(r.rest)) {
		r.short = true
		return nil
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

func (r *reader) byte() byte {
	if part := r.take(1); part != nil {
		return part[0]
	}
	return 0
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.short = true
		return 0
	}
	r.take(uint64(size))
	return n
}

func (r *reader) bytes() []byte {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.short = true
		return nil
	}
	r.take(uint64(size))
	return r.take(n)
}
