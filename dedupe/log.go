package dedupe

import (
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

// A log is laid out the same in every store: its entries, oldest first, each with
// its length in 2 big-endian bytes before it. The scripts of the redis store do the
// same; see its log.lua.

// DecodeLog returns the entries of a log, which share its memory. The error, which
// wraps ErrCorrupt, comes with those before the one that cannot be read.
func DecodeLog(b []byte) (entries [][]byte, err error) {
	for r := (reader{rest: b}); len(r.rest) > 0; {
		entry := r.text()
		if r.short {
			return entries, fmt.Errorf("%w: a log is cut short", ErrCorrupt)
		}
		entries = append(entries, slices.Clip(entry))
	}
	return entries, nil
}

// AppendTo returns a log with an entry more, without the ones it does not keep.
func (a Append) AppendTo(log []byte) ([]byte, error) {
	entries, err := DecodeLog(log)
	if err != nil {
		return nil, err
	}
	for _, surplus := range entries[:max(0, len(entries)+1-a.Keep)] {
		log = log[2+len(surplus):]
	}
	next := append(make([]byte, 0, len(log)+2+len(a.Entry)), log...)
	return appendText(next, a.Entry), nil
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
