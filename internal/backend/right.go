package backend

import "github.com/sidecall/sidecall/internal/tool"

// errorTypeLeaseLost is the error.type of a call that was withheld.
const errorTypeLeaseLost = "lease_lost"

// Withheld is how the attempt ends when the right to send it is gone; nil while
// it is held. Whoever asks sends next, with nothing in between that can wait.
func (i *Invocation) Withheld() *tool.Failure {
	if i.Right == nil || i.Right.Held() {
		return nil
	}
	return LeaseLost()
}

// LeaseLost is the failure of a call that was not sent because its claim ran out
// on the way to the upstream.
func LeaseLost() *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeStoreUnavailable, Evidence: tool.NotExecuted, ErrorType: errorTypeLeaseLost,
		Constraint:  "the claim on this call ran out before it was sent",
		CallerFault: true, // it says nothing about the backend
	}
}

// WasWithheld reports whether a failure is LeaseLost.
func WasWithheld(failure *tool.Failure) bool {
	return failure != nil && failure.ErrorType == errorTypeLeaseLost
}
