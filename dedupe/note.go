package dedupe

import (
	"cmp"
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
func (n *Note) Validate() error {
	return cmp.Or(
		n.Key.validate(),
		n.Key.holds(true),
		between("bytes of the name of a counter", len(n.Counter), 0, MaxCounterBytes),
		between("a retention", n.Retention, time.Millisecond, longest),
		validateLogs(n.Logs),
		validateAppends(n.Appends))
}
