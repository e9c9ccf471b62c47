package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/tool"
)

// The layout of an entry, in big-endian: version, kind, flags, rule, count and
// refusals (1 byte each); Same, ID, Batch, Outcome and Start (8 each); the duration
// in milliseconds and, when there is one, ComeAgain in milliseconds after the start
// (uvarints); the name, to the end.
//
// A version that nobody here knows is skipped: during an update of several sidecars
// the older ones judge by what they can read.
const (
	version    = 1
	fixedBytes = 6 + 5*8
	// maxName is how much of a tool's name an entry keeps, in bytes.
	maxName = 128
	// MaxEntryBytes bounds an entry in its encoding.
	MaxEntryBytes = fixedBytes + 2*binary.MaxVarintLen64 + maxName
	// maxSpan bounds durations: what is longer was never written.
	maxSpan = math.MaxInt64 / 4
)

// Flags: the effect in the two lowest bits.
const (
	effectMask    = 3
	flagPolling   = 1 << 2
	flagComeAgain = 1 << 3
	knownFlags    = effectMask | flagPolling | flagComeAgain
)

var (
	// ErrVersion is an entry of a version that is not known here.
	ErrVersion = errors.New("guard: an entry of another version")
	// ErrCorrupt is an entry that nobody can have written.
	ErrCorrupt = errors.New("guard: a corrupt entry")
)

// AppendTo appends the entry in its encoding: some 60 bytes, at most MaxEntryBytes.
// Counts above 255 are written as 255, an end or a ComeAgain before the start as
// the start.
func (e *Entry) AppendTo(b []byte) []byte {
	flags := byte(e.Effect) & effectMask
	if e.Polling {
		flags |= flagPolling
	}
	if e.ComeAgain != 0 {
		flags |= flagComeAgain
	}
	b = append(b, version, byte(e.Kind), flags, byte(e.Rule), saturated(e.Count), saturated(e.Refusals))
	for _, n := range [...]uint64{uint64(e.Same), uint64(e.ID), uint64(e.Batch), uint64(e.Outcome), uint64(e.Start)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.AppendUvarint(b, span(e.Start, e.End))
	if e.ComeAgain != 0 {
		b = binary.AppendUvarint(b, span(e.Start, e.ComeAgain))
	}
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

// Decode reads an entry. The error wraps ErrVersion or ErrCorrupt.
func Decode(b []byte) (Entry, error) { return decode(string(b)) }

// decode keeps a part of b, and copies nothing.
func decode(b string) (e Entry, err error) {
	if b == "" {
		return e, fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	if b[0] != version {
		return e, fmt.Errorf("%w: %d, want %d", ErrVersion, b[0], version)
	}
	if len(b) < fixedBytes {
		return e, fmt.Errorf("%w: %d bytes, want at least %d", ErrCorrupt, len(b), fixedBytes)
	}
	flags := b[2]
	e = Entry{Kind: Kind(b[1]), Rule: Rule(b[3]), Count: int(b[4]), Refusals: int(b[5])}
	e.Effect, e.Polling = tool.Effect(flags&effectMask), flags&flagPolling != 0
	e.Same, e.ID, e.Batch, e.Outcome = Hash(word(b, 0)), Hash(word(b, 1)), Hash(word(b, 2)), Hash(word(b, 3))
	e.Start = Instant(word(b, 4))
	b = b[fixedBytes:]
	if e.End, b, err = after(e.Start, b); err != nil {
		return Entry{}, err
	}
	if flags&flagComeAgain != 0 {
		if e.ComeAgain, b, err = after(e.Start, b); err != nil {
			return Entry{}, err
		}
	}
	e.Tool = b
	return e, e.check(flags)
}

// word is the n-th of the fixed words.
func word(b string, n int) (w uint64) {
	for _, c := range []byte(b[6+8*n : 6+8*n+8]) {
		w = w<<8 | uint64(c)
	}
	return w
}

// after reads an instant that is written as the time since start.
func after(start Instant, b string) (at Instant, rest string, err error) {
	var span uint64
	for i := range min(len(b), binary.MaxVarintLen64) {
		span |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] >= 0x80 {
			continue
		}
		at = start + Instant(span)
		if span > maxSpan || at < start || i > 0 && b[i] == 0 {
			break
		}
		return at, b[i+1:], nil
	}
	return 0, "", fmt.Errorf("%w: a duration that cannot be", ErrCorrupt)
}

// check refuses what AppendTo does not write.
func (e *Entry) check(flags byte) error {
	switch {
	case flags&^knownFlags != 0:
		return fmt.Errorf("%w: flags %#x", ErrCorrupt, flags)
	case e.Kind < OK || e.Kind > Refused:
		return fmt.Errorf("%w: kind %d", ErrCorrupt, e.Kind)
	case e.Rule > Duplicate:
		return fmt.Errorf("%w: rule %d", ErrCorrupt, e.Rule)
	case len(e.Tool) > maxName || !utf8.ValidString(e.Tool):
		return fmt.Errorf("%w: a tool's name of %d bytes", ErrCorrupt, len(e.Tool))
	case flags&flagComeAgain != 0 && e.ComeAgain == 0:
		return fmt.Errorf("%w: a time to come again that is none", ErrCorrupt)
	}
	return nil
}

// Log is the log of a prompt, read.
type Log struct {
	entries []Entry // the oldest first
	skipped int
}

// Read reads the entries of a log, the oldest first. What cannot be read is left
// out. It makes two allocations, and keeps nothing of what it is given.
func Read(raw [][]byte) Log {
	if len(raw) == 0 {
		return Log{}
	}
	var size int
	for _, b := range raw {
		size += len(b)
	}
	var text strings.Builder
	text.Grow(size)
	for _, b := range raw {
		text.Write(b)
	}
	l := Log{entries: make([]Entry, 0, len(raw))}
	rest := text.String()
	for _, b := range raw {
		if e, err := decode(rest[:len(b)]); err == nil {
			l.entries = append(l.entries, e)
		} else {
			l.skipped++
		}
		rest = rest[len(b):]
	}
	return l
}

// Len is the number of entries that could be read.
func (l Log) Len() int { return len(l.entries) }

// Skipped is the number of those that could not.
func (l Log) Skipped() int { return l.skipped }
