package breaker

import (
	"errors"
	"fmt"
)

// State of a breaker.
type State uint8

// The states, with gobreaker's own numbers, which are those of the metric
// sidecall.breaker.state: each lets less through than the one before.
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

// counts reports whether the outcome says anything. One that does not exist says
// nothing.
func (o Outcome) counts() bool { return o == Success || o == Failure }

// What inner is told about outcomes: nil is a success.
var (
	errFailure = errors.New("failure")
	errIgnored = errors.New("ignored")
)

// err is how inner is told.
func (o Outcome) err() error {
	switch o {
	case Success:
		return nil
	case Failure:
		return errFailure
	case Ignored: // as one that does not exist
	}
	return errIgnored
}

// phase is a state and its number in the history of a breaker: two phases are
// equal only if the state has not changed between them, not even there and back.
type phase uint64

const stateBits = 2

func (p phase) state() State { return State(p & (1<<stateBits - 1)) }

func (p phase) next(s State) phase { return (p>>stateBits+1)<<stateBits | phase(s) }
