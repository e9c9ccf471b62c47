package dedupe

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Bounds of logs.
const (
	// MaxLogs bounds the logs that one request reads, or appends to.
	MaxLogs = 4
	// MaxLogBytes bounds the name of a log.
	MaxLogBytes = 128
	// MaxLogEntries bounds the entries of a log, MaxEntryBytes each of them.
	MaxLogEntries = 128
	MaxEntryBytes = 4 << 10
)

// Append adds an entry to the end of a log of the call's tenant and conversation.
// What an entry says is opaque here.
type Append struct {
	// Log names it.
	Log string
	// Entry has 1 to MaxEntryBytes.
	Entry []byte
	// Keep is how many entries the log keeps, this one among them: the latest.
	Keep int
}

// Logs are entries of logs, oldest first, in the order in which the logs were
// named.
type Logs [][][]byte

// A log that is kept as one text: in 2 big-endian bytes how many entries it
// has, and the entries, oldest first, each with its length in 2 bytes before it. So
// whoever appends one looks at those only that it drops.

// DecodeLog returns the entries of a log, which share its memory. The error, which
// wraps ErrCorrupt, comes with those before the one that cannot be read.
func DecodeLog(b []byte) (entries [][]byte, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	count, rest, ok := logCount(b)
	if !ok {
		return nil, fmt.Errorf("%w: a log of %d entries in %d bytes", ErrCorrupt, count, len(b))
	}
	entries = make([][]byte, 0, count)
	for r := (reader{rest: rest}); len(r.rest) > 0; {
		entry := r.text()
		if r.short || len(entries) == count {
			return entries, fmt.Errorf("%w: a log is cut short", ErrCorrupt)
		}
		entries = append(entries, slices.Clip(entry))
	}
	if len(entries) != count {
		return entries, fmt.Errorf("%w: a log of %d entries has %d", ErrCorrupt, count, len(entries))
	}
	return entries, nil
}

// logCount is how many entries a log says that it has; false when it cannot have them.
func logCount(b []byte) (count int, rest []byte, ok bool) {
	if len(b) < 2 {
		return 0, nil, false
	}
	count, rest = int(binary.BigEndian.Uint16(b)), b[2:]
	return count, rest, count <= MaxLogEntries && 3*count <= len(rest)
}

// AppendTo returns a log with an entry more, without the ones it does not keep. One
// that cannot be what was written begins anew: nothing but advice rests on it.
func (a Append) AppendTo(log []byte) []byte {
	count, rest, _ := a.trimmed(log)
	next := make([]byte, 2, 2+len(rest)+2+len(a.Entry))
	binary.BigEndian.PutUint16(next, uint16(count+1))
	return appendText(append(next, rest...), a.Entry)
}

// trimmed is a log without the entries for which there is no room beside a new one.
func (a Append) trimmed(log []byte) (count int, rest []byte, ok bool) {
	count, rest, ok = logCount(log)
	if !ok {
		return 0, nil, false
	}
	r := reader{rest: rest}
	for ; count+1 > a.Keep; count-- {
		r.text()
	}
	if r.short {
		return 0, nil, false
	}
	return count, r.rest, true
}

func validateLogs(names []string) error {
	if len(names) > MaxLogs {
		return fmt.Errorf("%w: %d logs, want at most %d", ErrInvalid, len(names), MaxLogs)
	}
	for _, name := range names {
		if err := validateLog(name); err != nil {
			return err
		}
	}
	return nil
}

func validateLog(name string) error {
	if name == "" || len(name) > MaxLogBytes {
		return fmt.Errorf("%w: the name of a log has %d bytes, want 1 to %d", ErrInvalid, len(name), MaxLogBytes)
	}
	return nil
}

func validateAppends(appends []Append) error {
	if len(appends) > MaxLogs {
		return fmt.Errorf("%w: entries for %d logs, want at most %d", ErrInvalid, len(appends), MaxLogs)
	}
	for _, a := range appends {
		if err := validateLog(a.Log); err != nil {
			return err
		}
		switch {
		case len(a.Entry) == 0 || len(a.Entry) > MaxEntryBytes:
			return fmt.Errorf("%w: an entry of %d bytes for the log %q, want 1 to %d", ErrInvalid, len(a.Entry), a.Log, MaxEntryBytes)
		case a.Keep < 1 || a.Keep > MaxLogEntries:
			return fmt.Errorf("%w: the log %q is to keep %d entries, want 1 to %d", ErrInvalid, a.Log, a.Keep, MaxLogEntries)
		}
	}
	return nil
}
