package dedupe

import "errors"

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
