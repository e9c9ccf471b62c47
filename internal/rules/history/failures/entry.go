package failures

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// entry is what a log keeps of a failure.
type entry struct {
	said

	operation, target string
	code              tool.Code
	at                int64  // Unix seconds
	number            uint64 // of the attempt at this operation and target, from 1; 0 when blind
	arguments         []argument
	unread            bool // the arguments could not be read
	// blind: it was written before the past was known, see Advisor.Foresee. Of shown
	// nobody knows then which were suggested; countMade finds out.
	blind bool
	shown []uint32
}

// said is what went wrong, in words.
type said struct {
	message   string // empty in RecentLog
	alike     uint32 // the same for messages that differ in ids and numbers only
	untrusted bool   // the message is in the words of a tool that is not trusted
}

// version is the first byte of an entry. A sidecar that does not know it passes the
// entry over: the block says less, and nothing breaks.
const version = 1

// Bounds of the parts of an entry, in bytes and in numbers.
const (
	maxOperation = 96
	maxTarget    = 160
	maxCode      = 32
	maxMessage   = 160
	maxArguments = 12
	maxName      = 40
	maxValue     = 60
	maxValues    = 320 // all names and values together
	maxShown     = 8
)

// encode writes an entry; it has at most MaxEntryBytes, since its parts are bounded.
func (e *entry) encode() []byte {
	b := make([]byte, 0, 256)
	b = append(b, version)
	for _, text := range []string{
		tool.ShortenBytes(e.operation, maxOperation), tool.ShortenBytes(e.target, maxTarget),
		tool.ShortenBytes(string(e.code), maxCode), tool.ShortenBytes(e.message, maxMessage),
	} {
		b = appendText(b, text)
	}
	b = binary.BigEndian.AppendUint32(b, e.alike)
	b = binary.AppendVarint(b, e.at)
	b = binary.AppendUvarint(b, e.number)
	b = append(b, bit(e.unread, 0)|bit(e.untrusted, 1)|bit(e.blind, 2))
	b = binary.AppendUvarint(b, uint64(len(e.arguments)))
	for _, a := range e.arguments {
		b = binary.BigEndian.AppendUint32(appendText(appendText(b, a.name), a.text), a.sum)
	}
	b = binary.AppendUvarint(b, uint64(len(e.shown)))
	for _, id := range e.shown {
		b = binary.BigEndian.AppendUint32(b, id)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func bit(set bool, place int) byte {
	if set {
		return 1 << place
	}
	return 0
}

// decode reads an entry; false for one of another version, and for what encode
// cannot have written.
func decode(b []byte) (e entry, ok bool) {
	if len(b) == 0 || len(b) > MaxEntryBytes || b[0] != version {
		return entry{}, false
	}
	r := reader{rest: b[1:]}
	e.operation, e.target = r.text(maxOperation), r.text(maxTarget)
	e.code, e.message = tool.Code(r.text(maxCode)), r.text(maxMessage)
	e.alike = r.sum()
	e.at = r.varint()
	e.number = r.uvarint(1 << 32)
	flags := r.uvarint(7)
	e.unread, e.untrusted, e.blind = flags&1 != 0, flags&2 != 0, flags&4 != 0
	for range r.uvarint(maxArguments) {
		e.arguments = append(e.arguments, argument{name: r.text(maxName), text: r.text(maxValue), sum: r.sum()})
	}
	for range r.uvarint(maxShown) {
		e.shown = append(e.shown, r.sum())
	}
	if r.failed || len(r.rest) > 0 || strings.Trim(string(e.code), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return entry{}, false // a code is shown without quotes
	}
	return e, true
}

// reader takes an entry apart. Once something is not there, all that follows is
// empty.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most || r.failed {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 || r.failed {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text(most uint64) string { return string(r.take(int(r.uvarint(most)))) }

func (r *reader) sum() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// time is when it was.
func (e *entry) time() time.Time { return time.Unix(e.at, 0) }

// attempts are the readable ones of entries that are of this operation and target.
func attempts(entries [][]byte, operation, target string) []entry {
	operation, target = tool.ShortenBytes(operation, maxOperation), tool.ShortenBytes(target, maxTarget)
	var out []entry
	for _, e := range readable(entries) {
		if e.operation == operation && e.target == target {
			out = append(out, e)
		}
	}
	return out[max(0, len(out)-KeptAttempts):]
}

func readable(entries [][]byte) []entry {
	var out []entry
	for _, b := range entries {
		if e, ok := decode(b); ok {
			out = append(out, e)
		}
	}
	return out
}
