package redisstore

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// A record and a tenure end with the time at which they were written, twice (8 bytes each,
// in milliseconds since 1970), which only the server knows. An instant in a record that was
// counted from then stands in it as the negative of so many milliseconds after it, and one.
const stampBytes = 2 * 8

// stamp returns what is written of a text at a time.
func stamp[T ~string | ~[]byte](text T, at time.Time) string {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(dedupe.Millis(at)))
	var b strings.Builder
	b.Grow(len(text) + stampBytes)
	b.WriteString(string(text))
	b.Write(ms[:])
	b.Write(ms[:])
	return b.String()
}

// stampOf returns a text without its stamp, and when it was written.
func stampOf(row string) (text string, at time.Time, err error) {
	if len(row) > stampBytes {
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

// sinceWritten returns an instant as it stands in a record that is decided at a time.
func sinceWritten(t, now time.Time) time.Time {
	if t.Location() != ofStep {
		return t
	}
	return dedupe.Instant(-1 - t.Sub(now).Milliseconds())
}

// whenWritten is the inverse, for what was written at a time.
func whenWritten(t, at time.Time) time.Time {
	if ms := dedupe.Millis(t); ms < 0 {
		return at.Add(time.Duration(-1-ms) * time.Millisecond)
	}
	return t
}

// instants are those of a record.
func instants(r *dedupe.Record) [3]*time.Time {
	return [...]*time.Time{&r.StartedAt, &r.FinishedAt, &r.LeaseUntil}
}

// decodeRecord reads a record as it is stored.
func decodeRecord(row string) (dedupe.Stored, error) {
	if row != "" && !dedupe.KnownLayout(row[0]) { // it may know of no stamp
		_, err := dedupe.DecodeSealed([]byte(row))
		return dedupe.Stored{}, err
	}
	text, at, err := stampOf(row)
	if err != nil {
		return dedupe.Stored{}, err
	}
	stored, err := dedupe.DecodeSealed([]byte(text))
	for _, instant := range instants(&stored.Record) {
		*instant = whenWritten(*instant, at)
	}
	return stored, err
}
