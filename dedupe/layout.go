package dedupe

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sidecall/sidecall/tool"
)

// The layout of a record, the same in every store: in big-endian, version, state,
// effect and mark (1 byte each), attempts (4), epoch, started, finished, lease end
// and retention (8 each; instants and durations in milliseconds), the fingerprint
// (32); owner, tool and charges, each with its length in 2 bytes before it. What
// comes after that is the store's own: its result, say.
//
// Of each charge there is the counter, with its length in 2 bytes before it, and
// the amount (8).
//
// A store that keeps no checksum of its own seals it (seal.go).
const layoutFixed = 4 + 4 + 5*8 + 32

// StoredBytes is how long a stored record is without its texts and charges.
const StoredBytes = layoutFixed + 3*2

// Stored is a record as a store keeps it; its Result is kept apart.
type Stored struct {
	Record
	// Mark is the store's own.
	Mark bool
	// Retention is how long the record is remembered after its last change.
	Retention time.Duration
}

// AppendTo appends the record in its layout, without its result. What it appends,
// DecodeStored reads, provided that Verify finds nothing wrong.
func (s *Stored) AppendTo(b []byte) []byte {
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
	return appendText(b, EncodeCharges(s.Charges))
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// EncodeCharges returns charges as they stand in a record; nil when there are
// none.
func EncodeCharges(charges []Charge) (b []byte) {
	for _, c := range charges {
		b = appendText(b, c.Counter)
		b = binary.BigEndian.AppendUint64(b, uint64(c.Amount))
	}
	return b
}

// KnownLayout reports whether a record that begins with a byte can be read.
func KnownLayout(version byte) bool { return OldestLayout <= version && version <= LayoutVersion }

// DecodeStored reads a record and returns the bytes after it, which share memory with
// b. The error wraps ErrLayout, or ErrCorrupt, also for what no store would have
// written.
func DecodeStored(b []byte) (s Stored, rest []byte, err error) {
	switch {
	case len(b) > 0 && !KnownLayout(b[0]):
		return Stored{}, nil, fmt.Errorf("%w: %d", ErrLayout, b[0])
	case len(b) < layoutFixed:
		return Stored{}, nil, fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(b))
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	s = Stored{
		Record: Record{
			State: State(b[1]), Effect: tool.Effect(b[2]), Attempts: int(binary.BigEndian.Uint32(b[4:])),
			Epoch: number(8), StartedAt: Instant(number(16)), FinishedAt: Instant(number(24)), LeaseUntil: Instant(number(32)),
			Fingerprint: [32]byte(b[layoutFixed-32:]),
		},
		Mark: b[3] == 1, Retention: time.Duration(number(40)) * time.Millisecond,
	}
	if b[3] > 1 || number(40) < 1 || number(40) > math.MaxInt64/int64(time.Millisecond) {
		return Stored{}, nil, fmt.Errorf("%w: a record marked %d that is kept for %d ms", ErrCorrupt, b[3], number(40))
	}
	texts := reader{rest: b[layoutFixed:]}
	s.Owner, s.Tool = string(texts.text()), string(texts.text())
	s.Charges, err = decodeCharges(texts.text())
	if texts.short {
		return Stored{}, nil, fmt.Errorf("%w: a record is cut short", ErrCorrupt)
	}
	if err == nil {
		err = s.Verify()
	}
	if err != nil {
		return Stored{}, nil, err
	}
	return s, texts.rest, nil
}

func decodeCharges(b []byte) (charges []Charge, err error) {
	for r := (reader{rest: b}); len(r.rest) > 0; {
		c := Charge{Counter: string(r.text())}
		if amount := r.take(8); amount != nil {
			c.Amount = int64(binary.BigEndian.Uint64(amount))
		}
		if r.short {
			return nil, fmt.Errorf("%w: the charges of a record are cut short", ErrCorrupt)
		}
		charges = append(charges, c)
	}
	return charges, nil
}

// Verify reports what cannot stand in a record that a store has written; the
// error wraps ErrCorrupt.
func (s *Stored) Verify() error {
	switch {
	case s.State < Claimed || s.State > Closed:
		return fmt.Errorf("%w: a record is %v", ErrCorrupt, s.State)
	case s.Effect > tool.Keyed:
		return fmt.Errorf("%w: a record of a tool that is %v", ErrCorrupt, s.Effect)
	case s.Attempts < 0 || s.Attempts > math.MaxInt32:
		return fmt.Errorf("%w: a record of %d attempts", ErrCorrupt, s.Attempts)
	case s.Epoch < 1:
		return fmt.Errorf("%w: a record at epoch %d", ErrCorrupt, s.Epoch)
	case s.Owner == "" || len(s.Owner) > MaxNameBytes || len(s.Tool) > MaxNameBytes:
		return fmt.Errorf("%w: a record with an owner of %d and a tool name of %d bytes", ErrCorrupt, len(s.Owner), len(s.Tool))
	case s.Retention < time.Millisecond:
		return fmt.Errorf("%w: a record that is kept for %v", ErrCorrupt, s.Retention)
	}
	if err := validateCharges(s.Charges, math.MaxInt64); err != nil {
		return fmt.Errorf("%w: %v", ErrCorrupt, err) //nolint:errorlint // it was no request that was invalid
	}
	return nil
}

// reader takes a record apart. Once it is short, all that it returns is nil.
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

// text reads a text with its length before it.
func (r *reader) text() []byte {
	size := r.take(2)
	if size == nil {
		return nil
	}
	return r.take(int(binary.BigEndian.Uint16(size)))
}

// Millis and Instant convert between an instant and the milliseconds since 1970
// that stand for it in a record; 0 is the zero time.
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
