package breaker

import "fmt"

// State of a breaker.
type State uint8

// The states, by what they let through: each less than the one before. The metric of
// them, sidecall.breaker.state, has their numbers.
const (
	// Closed: calls go through.
	Closed State = iota
	// HalfOpen: one call at a time goes through, as a probe.
	HalfOpen
	// Open: no call goes through.
	Open
)

var states = [...]string{Closed: "closed", HalfOpen: "half-open", Open: "open"}

// String returns closed, half-open or open.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Outcome is what a call says about the health of the backend.
type Outcome uint8

// The outcomes. The zero value claims nothing.
const (
	// Ignored: nothing. The caller cancelled, or made a mistake, or nothing
	// was sent.
	Ignored Outcome = iota
	// Success: the backend is well.
	Success
	// Failure: it is not.
	Failure
)
