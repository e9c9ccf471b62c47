package dedupe

import (
	"fmt"
	"time"
)

// Note is about a call that is refused before anything was claimed: one look at
// its record, and at once what the loop around it has to remember of it.
type Note struct {
	Key Key
	// Appends are made when the call is Absent or NotRun: the refusal then stands.
	Appends []Append
	// Logs name the logs to return, as in a Request.
	Logs []string
	// Counter is the tally to return; empty for none.
	Counter string
	// Retention is how long the logs are remembered after it.
	Retention time.Duration
}

// Noted is the answer to a Note.
type Noted struct {
	Record Record
	Logs   Logs
	Tally  Tally
}

// Refused reports whether the refusal of a call stands that has this record.
func (r Record) Refused() bool { return r.State == Absent || r.State == NotRun }

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (n Note) Validate() error {
	if err := n.Key.validate(); err != nil {
		return err
	}
	switch {
	case n.Key.Conversation == "":
		return fmt.Errorf("%w: a note without a conversation, to which tallies and logs belong", ErrInvalid)
	case len(n.Counter) > MaxCounterBytes:
		return fmt.Errorf("%w: the name of a counter has %d bytes, want at most %d", ErrInvalid, len(n.Counter), MaxCounterBytes)
	case n.Retention < time.Millisecond:
		return fmt.Errorf("%w: a retention of %v, want at least 1ms", ErrInvalid, n.Retention)
	}
	if err := validateLogs(n.Logs); err != nil {
		return err
	}
	return validateAppends(n.Appends)
}
