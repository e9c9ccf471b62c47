package dedupe

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of logs.
const (
	MaxLogs       = 5   // that one request reads, or appends to
	MaxLogBytes   = 128 // of the name of a log
	MaxLogEntries = 128
	MaxEntryBytes = 4 << 10
)

// Append adds an entry to the end of a log of the call's tenant and conversation.
type Append struct {
	Log   string
	Entry []byte // 1 to MaxEntryBytes
	Keep  int    // how many entries the log keeps, this one among them
}

// Logs are entries of logs, oldest first, in the order in which the logs were named.
type Logs [][][]byte

// A log is kept as one text: its entries, the oldest first, each with how many of the latest
// count once it is there (1 byte) and its length (2) before it. So whoever appends one need not
// look at the others.
const logHead = 1 + 2

// DecodeLog returns the entries of a log that count, which share its memory. The error, which
// wraps ErrCorrupt, comes with those before the one that cannot be read.
func DecodeLog(log []byte) (entries [][]byte, err error) {
	keep := 0
	if len(log) >= logHead { // there are about as many as are as long as the first
		entries = make([][]byte, 0, len(log)/(logHead+int(log[1])<<8+int(log[2])))
	}
	for r := (reader{rest: log}); len(r.rest) > 0; {
		head := r.take(1)
		entry := r.text()
		if r.short || head[0] == 0 || head[0] > MaxLogEntries {
			err = fmt.Errorf("%w: a log of %d bytes is cut short", ErrCorrupt, len(log))
			break
		}
		keep = int(head[0])
		entries = append(entries, slices.Clip(entry))
	}
	return entries[max(0, len(entries)-keep):], err
}

// Framed is an entry as it stands in a log.
func (a Append) Framed() []byte {
	b := append(make([]byte, 0, logHead+len(a.Entry)), byte(a.Keep))
	return appendText(b, a.Entry)
}

// AppendTo returns a log with an entry more, without the ones that it does not keep. A damaged
// one begins anew: nothing but advice rests on it.
func (a Append) AppendTo(log []byte) []byte {
	entries, err := DecodeLog(log)
	framed := a.Framed()
	if err != nil || a.Keep == 1 {
		return framed
	}
	size := 0 // of those that are kept, which are the last
	for _, entry := range entries[max(0, len(entries)+1-a.Keep):] {
		size += logHead + len(entry)
	}
	return slices.Concat(log[len(log)-size:], framed)
}

func validateLogs(names []string) error {
	err := between("logs", len(names), 0, MaxLogs)
	for _, name := range names {
		err = cmp.Or(err, between("bytes of the name of a log", len(name), 1, MaxLogBytes))
	}
	return err
}

func validateAppends(appends []Append) error {
	err := between("logs", len(appends), 0, MaxLogs)
	for _, a := range appends {
		err = cmp.Or(err,
			between("bytes of the name of a log", len(a.Log), 1, MaxLogBytes),
			between("bytes of an entry of a log", len(a.Entry), 1, MaxEntryBytes),
			between("the entries that a log keeps", a.Keep, 1, MaxLogEntries))
	}
	return err
}
