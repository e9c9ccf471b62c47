package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

// text are bytes that the client library sends as they are, wherever they are: so a
// pointer to them is a word of a command that needs no room of its own.
type text []byte

func (t *text) MarshalBinary() ([]byte, error) { return *t, nil }

// A record and a tenure end with the time at which they were written, twice (8 bytes each,
// in milliseconds since 1970), which only the server knows. An instant in a record that was
// counted from then stands in it as the negative of so many milliseconds after it, and one.
const stampBytes = 2 * 8

// stamp returns what is written of a text at a time.
func stamp[T ~string | ~[]byte](text T, at time.Time) string {
	var buffer [mostRowBytes]byte
	b := append(buffer[:0], text...)
	for range 2 {
		b = binary.BigEndian.AppendUint64(b, uint64(dedupe.Millis(at)))
	}
	return string(b)
}

// stampOf returns a text without its stamp, and when it was written.
func stampOf(row string) (text string, at time.Time, err error) {
	if text = row; len(row) > stampBytes {
		text, row = row[:len(row)-stampBytes], row[len(row)-stampBytes:]
		if once, twice := row[:8], row[8:]; once == twice {
			return text, dedupe.Instant(int64(binary.BigEndian.Uint64([]byte(once)))), nil
		}
	}
	return text, at, fmt.Errorf("%w: it does not say when it was written", dedupe.ErrCorrupt)
}

// ofStep is the location of the time of a step: an instant that has it was counted from
// then, and not read from a row.
var ofStep = time.FixedZone("UTC", 0)

// sinceWritten makes the instants of a record that was decided at a time what stands in it.
func sinceWritten(r *dedupe.Record, now time.Time) {
	for _, t := range [...]*time.Time{&r.StartedAt, &r.FinishedAt, &r.LeaseUntil} {
		if t.Location() == ofStep {
			*t = dedupe.Instant(-1 - t.Sub(now).Milliseconds())
		}
	}
}

// whenWritten is the inverse, for a record that was written at a time.
func whenWritten(r *dedupe.Record, at time.Time) {
	for _, t := range [...]*time.Time{&r.StartedAt, &r.FinishedAt, &r.LeaseUntil} {
		if ms := dedupe.Millis(*t); ms < 0 {
			*t = at.Add(time.Duration(-1-ms) * time.Millisecond)
		}
	}
}

// decodeRecord reads a record as it is stored.
func decodeRecord(row string) (dedupe.Stored, error) {
	text, at, unstamped := stampOf(row)
	stored, err := dedupe.DecodeSealed([]byte(text))
	if unstamped != nil && !errors.Is(err, dedupe.ErrLayout) { // another layout may know of no stamp
		return dedupe.Stored{}, unstamped
	}
	whenWritten(&stored.Record, at)
	return stored, err
}

// An output is stored as one byte, 1 when it is whole, when it expires (8, in milliseconds
// since 1970), and its data.
const outputHead = 1 + 8

func encodeOutput(o *dedupe.Output, now time.Time) text {
	b := make([]byte, 1, outputHead+len(o.Data))
	if o.Complete {
		b[0] = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(dedupe.Millis(now.Add(o.TTL))))
	return append(b, o.Data...)
}

func decodeOutput(ref, text string, now time.Time) (dedupe.Output, error) {
	if len(text) < outputHead {
		return dedupe.Output{}, fmt.Errorf("%w: an output without its head", dedupe.ErrCorrupt)
	}
	expires := dedupe.Instant(int64(binary.BigEndian.Uint64([]byte(text[1:outputHead]))))
	return dedupe.Output{Ref: ref, Data: []byte(text[outputHead:]), Complete: text[0] == 1, TTL: expires.Sub(now)}, nil
}

// named says which record an error is of, if it is one's. A row of another type, and a list
// that is too short, are none.
func named(name string, err error) error {
	switch {
	case err == nil || dedupe.IsCorrupt(err):
	case redis.HasErrorPrefix(err, "SIDECALL "), redis.HasErrorPrefix(err, "WRONGTYPE "):
		return &dedupe.Corrupt{Name: name, Why: fmt.Errorf("%w: %w", dedupe.ErrCorrupt, err)}
	case errors.Is(err, dedupe.ErrCorrupt):
		return &dedupe.Corrupt{Name: name, Why: err}
	}
	return err
}
