package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// layout is the first byte of an entry. Another layout gets another number.
const layout = 1

// encode returns an entry as the body of a frame. Sequence numbers belong to
// an open journal and are not kept.
func encode(late dedupe.Late) []byte {
	s, c := &late.Settlement, &late.Claim
	b := make([]byte, 0, 256+len(s.Result)+outputBytes(s.Output))
	b = append(b, layout)
	for _, part := range [...]string{s.Key.Tenant, s.Key.Conversation, s.Key.Turn, s.Key.ID, s.Owner, c.Tool} {
		b = appendBytes(b, part)
	}
	b = append(b, byte(s.State), byte(c.Effect))
	b = append(b, c.Fingerprint[:]...)
	for _, n := range [...]int64{s.Epoch, int64(s.Attempts), int64(s.Retention), nanos(c.StartedAt), nanos(late.EndedAt)} {
		b = binary.AppendVarint(b, n)
	}
	b = appendBytes(b, s.Result)
	if s.Output == nil {
		return append(b, 0)
	}
	b = append(b, 1, flag(s.Output.Complete))
	b = binary.AppendVarint(b, int64(s.Output.TTL))
	b = appendBytes(b, s.Output.Ref)
	return appendBytes(b, s.Output.Data)
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

// nanos is a time as nanoseconds since 1970, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// decode reads the body of a frame. The entry shares its memory.
func decode(body []byte) (dedupe.Late, error) {
	r := reader{rest: body}
	if got := r.byte(); got != layout && !r.short {
		return dedupe.Late{}, fmt.Errorf("an entry of layout %d, and only %d is known", got, layout)
	}
	var late dedupe.Late
	s, c := &late.Settlement, &late.Claim
	for _, part := range [...]*string{&s.Key.Tenant, &s.Key.Conversation, &s.Key.Turn, &s.Key.ID, &s.Owner, &c.Tool} {
		*part = string(r.bytes())
	}
	s.State, c.Effect = dedupe.State(r.byte()), tool.Effect(r.byte())
	copy(c.Fingerprint[:], r.take(uint64(len(c.Fingerprint))))
	var numbers [5]int64
	for i := range numbers {
		numbers[i] = r.varint()
	}
	s.Result = r.bytes()
	if r.byte() == 1 {
		complete := r.byte() == 1
		s.Output = &dedupe.Output{Complete: complete, TTL: time.Duration(r.varint()), Ref: string(r.bytes()), Data: r.bytes()}
	}
	switch {
	case r.short:
		return dedupe.Late{}, errors.New("an entry that ends too early")
	case len(r.rest) > 0:
		return dedupe.Late{}, fmt.Errorf("an entry with %d bytes too many", len(r.rest))
	case numbers[1] < 0 || numbers[1] > math.MaxInt32:
		return dedupe.Late{}, fmt.Errorf("an entry with %d attempts", numbers[1])
	}
	s.Epoch, s.Attempts, s.Retention = numbers[0], int(numbers[1]), time.Duration(numbers[2])
	c.StartedAt, late.EndedAt = instant(numbers[3]), instant(numbers[4])
	c.State, c.Owner, c.Epoch = dedupe.Claimed, s.Owner, s.Epoch
	return late, validate(&late)
}

// validate reports what no store would take.
func validate(late *dedupe.Late) error {
	if err := late.Settlement.Validate(); err != nil {
		return err
	}
	if late.Settlement.Epoch == 0 || len(late.Claim.Tool) > dedupe.MaxNameBytes {
		return fmt.Errorf("%w: the settlement of no claim, or of a tool name of %d bytes", dedupe.ErrInvalid, len(late.Claim.Tool))
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
