package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// The layout of an entry, in big-endian: version, kind, flags, rule, count and
// refusals (1 byte each); Same, ID, Batch, Outcome, Start and Words (8 each); the
// duration in milliseconds (uvarint); the name, to the end.
//
// A version that nobody here knows is skipped: during an update of several sidecars
// the older ones judge by what they can read.
const (
	version    = 1
	fixedBytes = 6 + 6*8
	// maxName is how much of a tool's name an entry keeps, in bytes.
	maxName = 128
	// MaxEntryBytes bounds an entry in its encoding.
	MaxEntryBytes = fixedBytes + binary.MaxVarintLen64 + maxName
	// maxSpan bounds durations: what is longer was never written.
	maxSpan = math.MaxInt64 / 4
)

// Flags: the effect in the two lowest bits.
const (
	effectMask  = 3
	flagPolling = 1 << 2
	flagEmpty   = 1 << 3
	knownFlags  = effectMask | flagPolling | flagEmpty
)

var (
	// ErrVersion is an entry of a version that is not known here.
	ErrVersion = errors.New("guard: an entry of another version")
	// ErrCorrupt is an entry that nobody can have written.
	ErrCorrupt = errors.New("guard: a corrupt entry")
)

// AppendTo appends the entry in its encoding: some 70 bytes, at most MaxEntryBytes.
// Counts above 255 are written as 255, an end before the start as the start.
func (e *Entry) AppendTo(b []byte) []byte {
	flags := byte(e.Effect) & effectMask
	if e.Polling {
		flags |= flagPolling
	}
	if e.Empty {
		flags |= flagEmpty
	}
	b = append(b, version, byte(e.Kind), flags, byte(e.Rule), saturated(e.Count), saturated(e.Refusals))
	for _, n := range [...]uint64{uint64(e.Same), uint64(e.ID), uint64(e.Batch), uint64(e.Outcome), uint64(e.Start), uint64(e.Words)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.AppendUvarint(b, span(e.Start, e.End))
	return append(b, cutName(e.Tool)...)
}

func saturated(n int) byte { return byte(min(max(n, 0), math.MaxUint8)) }

func span(from, to Instant) uint64 {
	if to <= from {
		return 0
	}
	return min(uint64(to)-uint64(from), maxSpan)
}

// cutName is what an entry keeps of a tool's name. It is what names are compared by.
func cutName(name string) string {
	if len(name) <= maxName && utf8.ValidString(name) {
		return name
	}
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) <= maxName {
		return name
	}
	end := maxName
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// decode reads all but the name, which it returns. The error wraps ErrVersion or ErrCorrupt.
func (e *Entry) decode(raw []byte) (name []byte, err error) {
	switch {
	case len(raw) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrCorrupt)
	case raw[0] != version:
		return nil, fmt.Errorf("%w: %d, want %d", ErrVersion, raw[0], version)
	case len(raw) < fixedBytes:
		return nil, fmt.Errorf("%w: %d bytes, want at least %d", ErrCorrupt, len(raw), fixedBytes)
	}
	flags, words := raw[2], raw[6:fixedBytes]
	e.Kind, e.Rule, e.Count, e.Refusals = Kind(raw[1]), Rule(raw[3]), int(raw[4]), int(raw[5])
	e.Effect, e.Polling, e.Empty = tool.Effect(flags&effectMask), flags&flagPolling != 0, flags&flagEmpty != 0
	e.Same = Hash(binary.BigEndian.Uint64(words))
	e.ID = Hash(binary.BigEndian.Uint64(words[8:]))
	e.Batch = Hash(binary.BigEndian.Uint64(words[16:]))
	e.Outcome = Hash(binary.BigEndian.Uint64(words[24:]))
	e.Start = Instant(binary.BigEndian.Uint64(words[32:]))
	e.Words = Words(binary.BigEndian.Uint64(words[40:]))
	name = raw[fixedBytes:]
	if e.End, name, err = after(e.Start, name); err != nil {
		return nil, err
	}
	return name, e.check(flags, name)
}

// after reads an instant that is written as the time since start.
func after(start Instant, b []byte) (at Instant, rest []byte, err error) {
	span, n := binary.Uvarint(b)
	at = start + Instant(span)
	if n <= 0 || n > 1 && b[n-1] == 0 || span > maxSpan || at < start {
		return 0, nil, fmt.Errorf("%w: a duration that cannot be", ErrCorrupt)
	}
	return at, b[n:], nil
}

// check refuses what AppendTo does not write.
func (e *Entry) check(flags byte, name []byte) error {
	switch {
	case flags&^knownFlags != 0:
		return fmt.Errorf("%w: flags %#x", ErrCorrupt, flags)
	case e.Kind < OK || e.Kind > Refused:
		return fmt.Errorf("%w: kind %d", ErrCorrupt, e.Kind)
	case e.Rule > Duplicate:
		return fmt.Errorf("%w: rule %d", ErrCorrupt, e.Rule)
	case len(name) > maxName || !utf8.Valid(name):
		return fmt.Errorf("%w: a tool's name of %d bytes", ErrCorrupt, len(name))
	}
	return nil
}
