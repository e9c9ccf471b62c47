package main

// Exit codes of the command.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitUnknown     = 4 // find: of a call nobody knows whether it ran
	exitUndecided   = 5 // find: a call is held or runs, and no call is unknown
)

// exitError carries an exit code. Its message is printed unless it is empty.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// fail is an error with an exit code; without err it prints nothing.
func fail(code int, err error) error { return &exitError{code, err} }
