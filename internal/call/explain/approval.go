package explain

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Hold is the wait of a call for a person.
type Hold struct {
	Why     string    // it is asked
	Until   time.Time // when it counts; zero where that is not known yet
	Allowed bool      // somebody has allowed it, and it was not sent since
	// MayHaveRun: attempts under its id before may have had the effect.
	MayHaveRun bool
}

// Held answers a call that a person has to allow first.
func (s *Subject) Held(h Hold) tool.Error {
	name, until := s.Route.Tool.Name, ""
	if !h.Until.IsZero() {
		until = ", until " + h.Until.UTC().Format(time.RFC3339)
	}
	e := tool.Error{
		Code:       tool.CodeApprovalRequired,
		Constraint: fmt.Sprintf("a person has to allow %s first (%s)", name, h.Why),
		Received:   tool.Quote(s.About.ID),
		Hint: fmt.Sprintf("Nothing was sent%s. Tell the user that a person has to allow this call%s. Do not call %s again for it, under another id either: "+
			"the program sends the same call with the same id once it is allowed, and then it runs.", h.now(), until, name),
	}
	if h.Allowed {
		e.Constraint = fmt.Sprintf("a person has allowed %s, and it was not sent since", name)
		e.Hint = fmt.Sprintf("Nothing was sent%s. The program sends the same call with the same id%s, and then it runs. Do not call %s under another id for it.", h.now(), until, name)
	}
	return e
}

// now says what is sure of a call that was sent before.
func (h Hold) now() string {
	if h.MayHaveRun {
		return " now; an earlier attempt at this call may have run"
	}
	return ""
}

// Denied answers a call that a person has denied. mayHaveRun tells of attempts before that.
func (s *Subject) Denied(by, reason string, mayHaveRun bool) tool.Error {
	e := tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("denied by %s: %s", by, reason),
		Received:   tool.Quote(s.About.ID),
		Hint: fmt.Sprintf("Nothing was sent, and nothing will be. Do not call %s again for this, under another id either: "+
			"change the plan, or tell the user who has denied it and why.", s.Route.Tool.Name),
	}
	if mayHaveRun {
		e.Code, e.Hint = tool.CodeOutcomeUnknown, s.howToKnow()+" It is not run again under this id."
	}
	return e
}
