package call

import "fmt"

// FaultKind says what whoever sent a request about a call can do about a Fault.
type FaultKind uint8

const (
	// Invalid: the request is wrong; the message begins with the field.
	Invalid FaultKind = iota + 1
	// NotFound: there is no record of the call.
	NotFound
	// NotNow: the call is in a state that does not allow it.
	NotNow
	// Changed: the call has changed while it was looked at.
	Changed
	// StoreDown: the store cannot be asked.
	StoreDown
	// Unreadable: what the store holds cannot be read.
	Unreadable
)

// Fault is why a request about a call cannot be done. It is for the program or
// the operator, never for a model; each front has its own status for it.
type Fault struct {
	Kind    FaultKind
	Message string
}

func (f *Fault) Error() string { return f.Message }

func fault(kind FaultKind, format string, args ...any) error {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
