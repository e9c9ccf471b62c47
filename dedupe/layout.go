package dedupe

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// The layout of a record, the same in every store: in big-endian, version, state, effect and mark (1
// byte each), attempts (4), epoch, started, finished, lease end and retention (8 each; instants and
// durations in milliseconds), the fingerprint (32); owner, tool, counter, details and
// approval, each with its length in 2 bytes before it. It is sealed: then come the CRC-32C of all
// else (4), with 0 for the mark, which is set alone and decides nothing, and the result, up to the
// end.
const (
	OldestLayout, LayoutVersion = 1, 1 // the lowest first byte of a record that is read, and the one that is written

	layoutFixed = 4 + 4 + 5*8 + 32
	sealBytes   = 4
	StoredBytes = layoutFixed + 5*2 // of a stored record without its texts
	MarkAt      = 3                 // where the mark of a record stands
)

// Stored is a record as a store keeps it.
type Stored struct {
	Record
	Mark      bool          // the store's own
	Retention time.Duration // after the last change
}

// AppendSealed appends the record in its layout, sealed and with its result.
func (s *Stored) AppendSealed(b []byte) []byte {
	from := len(b)
	b = slices.Grow(b, StoredBytes+len(s.Owner)+len(s.Tool)+len(s.Counter)+len(s.Details)+len(s.Approval)+sealBytes+len(s.Result))
	b = append(b, LayoutVersion, byte(s.State), byte(s.Effect), 0)
	if s.Mark {
		b[len(b)-1] = 1
	}
	b = binary.BigEndian.AppendUint32(b, uint32(s.Attempts))
	for _, n := range [...]int64{s.Epoch, Millis(s.StartedAt), Millis(s.FinishedAt), Millis(s.LeaseUntil), s.Retention.Milliseconds()} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, s.Fingerprint[:]...)
	b = appendText(b, s.Owner)
	b = appendText(b, s.Tool)
	b = appendText(b, s.Counter)
	b = appendText(b, s.Details)
	b = appendText(b, s.Approval)
	b = binary.BigEndian.AppendUint32(b, seal(b[from:], s.Result))
	return append(b, s.Result...)
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// KnownLayout reports whether a record that begins with a byte can be read.
func KnownLayout(version byte) bool { return OldestLayout <= version && version <= LayoutVersion }

// DecodeSealed reads a record with its result, which shares memory with b. The error wraps ErrLayout, or
// ErrCorrupt, also for what no store would have written.
func DecodeSealed(b []byte) (Stored, error) {
	if len(b) > 0 && !KnownLayout(b[0]) {
		return Stored{}, fmt.Errorf("%w: %d", ErrLayout, b[0])
	}
	r := reader{rest: b}
	fixed := r.take(layoutFixed)
	owner, name, counter, details, approval := r.text(), r.text(), r.text(), r.text(), r.text()
	body := b[:len(b)-len(r.rest)]
	sum, result := r.take(sealBytes), r.rest
	switch {
	case r.short:
		return Stored{}, fmt.Errorf("%w: a record of %d bytes is cut short", ErrCorrupt, len(b))
	case binary.BigEndian.Uint32(sum) != seal(body, result):
		return Stored{}, fmt.Errorf("%w: a record fails its checksum", ErrCorrupt)
	case len(result) == 0:
		result = nil
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(fixed[at:])) }
	s := Stored{
		Record: Record{
			State: State(fixed[1]), Effect: tool.Effect(fixed[2]), Attempts: int(binary.BigEndian.Uint32(fixed[4:])),
			Epoch: number(8), StartedAt: Instant(number(16)), FinishedAt: Instant(number(24)), LeaseUntil: Instant(number(32)),
			Fingerprint: [32]byte(fixed[layoutFixed-32:]), Owner: string(owner), Tool: string(name), Counter: string(counter),
			Details: details, Approval: approval, Result: result,
		},
		Mark: fixed[MarkAt] == 1, Retention: time.Duration(number(40)) * time.Millisecond,
	}
	if fixed[MarkAt] > 1 || s.Retention.Milliseconds() != number(40) {
		return Stored{}, fmt.Errorf("%w: a record marked %d that is kept for %d ms", ErrCorrupt, fixed[MarkAt], number(40))
	}
	return s, s.Verify()
}

// Verify reports what cannot stand in a record that a store has written; the
// error wraps ErrCorrupt.
func (s *Stored) Verify() error {
	least := int64(1)
	if s.State == Held || s.State == Done || s.State == Closed { // it may have been held, and then denied or closed, unclaimed
		least = 0
	}
	err := cmp.Or(
		between("a state", int(s.State), int(Claimed), int(Held)),
		between("an effect", int(s.Effect), 0, int(tool.Keyed)),
		between("attempts", s.Attempts, 0, math.MaxInt32),
		between("an epoch", s.Epoch, least, math.MaxInt64),
		between("bytes of an owner", len(s.Owner), 1, MaxNameBytes),
		between("bytes of the name of a tool", len(s.Tool), 0, MaxNameBytes),
		between("bytes of the name of a counter", len(s.Counter), 0, MaxCounterBytes),
		between("bytes of details", len(s.Details), 0, MaxDetailsBytes),
		between("bytes of an approval", len(s.Approval), 0, MaxApprovalBytes),
		between("a retention", s.Retention, time.Millisecond, math.MaxInt64))
	if err != nil { // it was no request that was invalid
		return fmt.Errorf("%w: a record that would be an %v", ErrCorrupt, err) //nolint:errorlint // see above
	}
	return nil
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	unmarked   = []byte{0}
)

func seal(body, result []byte) uint32 {
	sum := crc32.Update(0, castagnoli, body[:MarkAt])
	sum = crc32.Update(sum, castagnoli, unmarked)
	sum = crc32.Update(sum, castagnoli, body[MarkAt+1:])
	return crc32.Update(sum, castagnoli, result)
}

// reader takes a text apart. Once it is short, all that it returns is nil.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n > len(r.rest) {
		r.short = true
		return nil
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

// text reads a text with its length before it; nil for an empty one.
func (r *reader) text() []byte {
	if size := r.take(2); size != nil && [2]byte(size) != [2]byte{} {
		return r.take(int(binary.BigEndian.Uint16(size)))
	}
	return nil
}

// Millis are the milliseconds since 1970 that stand for an instant in a record; 0 is the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Instant is the inverse of Millis.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
