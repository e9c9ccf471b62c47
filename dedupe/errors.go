package dedupe

import (
	"errors"
	"fmt"
)

// The errors that a caller may want to tell apart. Every other error of a store
// means that it could not be reached or could not do its work just now.
var (
	// ErrNoOutput is returned by Store.Output for a ref that is not, or no
	// longer, kept for the tenant.
	ErrNoOutput = errors.New("no such output")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrInvalid is returned for a request that no store can ever accept;
	// nothing was changed, and asking again is useless.
	ErrInvalid = errors.New("invalid request to the store")
	// ErrCorrupt is returned when what a store holds cannot be what was
	// written to it. It is never repaired or skipped silently.
	ErrCorrupt = errors.New("the store is corrupt")
	// ErrUnasked is returned when a request has not reached the store, or was not sent
	// to it: nothing came of it, and nothing will.
	ErrUnasked = errors.New("the store was not asked")
	// ErrLayout is returned for a record in a layout that this version does not know:
	// another version has written it, and reads it. Nothing was changed.
	ErrLayout = errors.New("a record has a layout that this version does not know")
	// ErrFull is returned when a bound of the store is reached; it passes as records expire.
	ErrFull = errors.New("the store is full")
	// ErrUnkept is returned by Claim.Settle when the store has no room for an output.
	// Nothing is settled: the result is to be told without it, and settled again.
	ErrUnkept = errors.New("the store has no room for the output")
)

// FailedError is the error of a store that refuses everything until it is opened again: what it
// holds, or is told, can no longer be trusted. Asking again is useless meanwhile.
type FailedError struct {
	// File is the path of the file that it is about.
	File  string
	Cause error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the store %s has failed and must be opened again: %v; "+
		"calls with an effect are refused until its file is seen to and the sidecar started anew", e.File, e.Cause)
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// Corrupt is the error of a record that cannot be what was written: its store
// serves all the others. Nobody can tell from it what became of its call, so that
// is not run, and asking again changes nothing. It wraps ErrCorrupt.
type Corrupt struct {
	// Name is what the store calls the record.
	Name string
	// Why wraps ErrCorrupt.
	Why error
}

// Error names the record, for the operator who has to look at it.
func (c *Corrupt) Error() string { return "record " + c.Name + ": " + c.Why.Error() }

// Unwrap returns what is wrong with it.
func (c *Corrupt) Unwrap() error { return c.Why }

// IsCorrupt reports that an error is of one corrupt record alone.
func IsCorrupt(err error) bool {
	_, ok := errors.AsType[*Corrupt](err)
	return ok
}
