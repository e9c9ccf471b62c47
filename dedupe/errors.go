package dedupe

import (
	"errors"
	"fmt"
)

// The errors that a caller may want to tell apart. Every other error of a store means that it could
// not be reached or could not do its work just now.
var (
	// ErrNoOutput: an output is not, or no longer, kept for the tenant.
	ErrNoOutput = errors.New("no such output")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrInvalid: no store can ever accept the request; nothing was changed.
	ErrInvalid = errors.New("invalid request to the store")
	// ErrCorrupt: what a store holds cannot be what was written to it.
	ErrCorrupt = errors.New("the store is corrupt")
	// ErrUnasked: the request has not reached the store: nothing came of it, and nothing will.
	ErrUnasked = errors.New("the store was not asked")
	// ErrLayout: another version has written the record, and reads it. Nothing was changed.
	ErrLayout = errors.New("a record has a layout that this version does not know")
	// ErrFull: a bound of the store is reached; it passes as records expire.
	ErrFull = errors.New("the store is full")
	// ErrUnkept: the store has no room for an output. Nothing is settled: the result is to be
	// told without it, and settled again.
	ErrUnkept = errors.New("the store has no room for the output")
)

// FailedError is the error of a store that refuses everything until it is opened again: what its
// file holds, or is told, can no longer be trusted.
type FailedError struct {
	File  string
	Cause error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the store %s has failed and must be opened again: %v; "+
		"calls with an effect are refused until its file is seen to and the sidecar started anew", e.File, e.Cause)
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// Corrupt is the error of a record that cannot be what was written: its store serves all the
// others. Nobody can tell from it what became of its call, so that is not run.
type Corrupt struct {
	Name string // what the store calls the record
	Why  error  // wraps ErrCorrupt
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
