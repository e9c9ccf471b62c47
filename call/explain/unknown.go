package explain

import (
	"fmt"

	"github.com/sidecall/sidecall/tool"
)

// Unknown explains a call that may or may not have happened.
func (s *Subject) Unknown(f *tool.Failure) tool.Error {
	constraint := f.Constraint
	if constraint == "" {
		constraint = constraints[f.Code]
	}
	if constraint == "" {
		constraint = "the connection to the tool was lost"
	}
	name := s.Route.Tool.Name
	hint := fmt.Sprintf("%s may or may not have happened. Do not call it again until you know: ", name)
	if verify := s.Route.Tool.Policy.VerifyWith; verify != "" {
		hint += fmt.Sprintf("call %s.", s.askWith(verify))
	} else {
		hint += "check by other means, or ask the user to."
	}
	return tool.Error{
		Code: tool.CodeOutcomeUnknown, Constraint: constraint,
		Received: s.said(f), Hint: hint,
	}
}
