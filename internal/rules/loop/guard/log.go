package guard

import (
	"encoding/binary"
	"strings"
)

// Log is the log of a prompt. It is read when there is a reason to.
type Log struct {
	raw [][]byte // the oldest first
}

// Read takes the entries of a log, the oldest first, and keeps them. What cannot be
// read is left out.
func Read(raw [][]byte) Log { return Log{raw} }

// entries reads the log, in two allocations.
func (l Log) entries() []Entry {
	if len(l.raw) == 0 {
		return nil
	}
	entries := make([]Entry, len(l.raw))
	var size int
	for _, b := range l.raw {
		size += max(0, len(b)-fixedBytes)
	}
	var names strings.Builder // never grows again, so what is cut from it stays
	names.Grow(size)
	n := 0
	for _, b := range l.raw {
		e := &entries[n]
		name, err := e.decode(b)
		if err != nil {
			*e = Entry{}
			continue
		}
		from := names.Len()
		names.Write(name)
		e.Tool = names.String()[from:]
		n++
	}
	return entries[:n]
}

// Refused reports that a call was refused when it was sent last.
func (l Log) Refused(id Hash) bool {
	entries := l.entries()
	for i := len(entries) - 1; i >= 0; i-- {
		if e := &entries[i]; e.ID == id {
			return e.Kind == Refused
		}
	}
	return false
}

// quiet reports that no rule can have anything to say of a call before it is made,
// from a glance at the log: everything in it went well and found something, and nothing
// is the same call. That is how nearly every log is, and to read it would cost more than
// the rules do.
func (l Log) quiet(c *Call) bool {
	for _, b := range l.raw {
		if len(b) >= fixedBytes && !harmless(b, c) { // what is shorter nobody can read
			return false
		}
	}
	return true
}

// harmless: an entry went well, and is of another call.
func harmless(b []byte, c *Call) bool {
	words := b[6:fixedBytes]
	same, id := Hash(binary.BigEndian.Uint64(words)), Hash(binary.BigEndian.Uint64(words[8:]))
	if Kind(b[1]) != OK || same == c.Same && same != 0 || id == c.ID && id != 0 {
		return false
	}
	return b[2]&flagEmpty == 0 && !Words(binary.BigEndian.Uint64(words[40:])).like(c.Words)
}
