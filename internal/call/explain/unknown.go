package explain

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/tool"
)

// Unknown explains a call that may or may not have happened.
func (s *Subject) Unknown(f *tool.Failure) tool.Error {
	constraint, received := Cleaned(s.Route.Secrets, f.Constraint, maxConstraint), s.said(f)
	if constraint == "" {
		constraint = constraints[f.Code]
	}
	if constraint == "" {
		constraint = "the connection to the tool was lost"
	}
	return tool.Error{
		Code: tool.CodeOutcomeUnknown, Constraint: constraint,
		Received: received, Hint: s.howToKnow() + s.whoSays(f, received),
	}
}

// howToKnow says what to do about a call that may or may not have happened.
func (s *Subject) howToKnow() string {
	hint := fmt.Sprintf("%s may or may not have happened. Do not call it again until you know: ", s.Route.Tool.Name)
	if verify := s.Route.Tool.Policy.VerifyWith; verify != "" {
		return hint + s.askWith(verify) + "."
	}
	return hint + "check by other means, or ask the user to."
}

// Unrepeatable answers a call that may have run, and could be repeated with its id if
// it were not refused now; why says for what.
func (s *Subject) Unrepeatable(why string) tool.Error {
	return tool.Error{
		Code:       tool.CodeOutcomeUnknown,
		Constraint: Cleaned(s.Route.Secrets, "an earlier request with this id may have run, and it cannot be repeated now: "+why, maxConstraint),
		Received:   tool.Quote(s.About.ID),
		Hint: s.howToKnow() + " Do not start it anew under another id, nor with another tool. " +
			"When an operator has made it callable again, the same call with the same id is safe to send.",
	}
}

// Lost answers a call whose program ended, and of which attempts may have had their effect
// without an answer.
func (s *Subject) Lost(repeatable bool) tool.Error {
	return s.lost("attempts at this call were lost, and the program that made it ended", repeatable)
}

// Forgotten answers a call of which there is no record, and may have been one.
func (s *Subject) Forgotten(repeatable bool) tool.Error {
	return s.lost("the model made this call so long ago that its record, if there was one, is forgotten", repeatable)
}

// Custom answers a call of a type that its program runs itself.
func (s *Subject) Custom(kind string) tool.Error {
	return s.lost(fmt.Sprintf("a call of type %q is for its program to run, which has not said what came of it", kind), false)
}

func (s *Subject) lost(why string, repeatable bool) tool.Error {
	e := tool.Error{Code: tool.CodeOutcomeUnknown, Constraint: why, Received: tool.Quote(s.About.ID), Hint: s.howToKnow()}
	if !repeatable {
		return e
	}
	e.Constraint += ": it may have run; sent again under its id it is repeated safely"
	if s.Route.Tool.Effect.Harmless() {
		e.Hint = fmt.Sprintf("%s may or may not have happened. To repeat it does no harm: call it again if it is still wanted.", s.Route.Tool.Name)
	}
	return e
}

// Answered answers a call that its conversation has answered before it ran, with a text.
// mayHaveRun tells of attempts before that.
func (s *Subject) Answered(text string, mayHaveRun bool) tool.Error {
	e := tool.Error{
		Code: tool.CodeCancelled, Constraint: "its conversation has answered this call already", Received: text,
		Hint: "Nothing was run under this id, and nothing will be. Go on from the conversation; if the call is still wanted, make it again with a new id.",
	}
	if mayHaveRun {
		e.Code, e.Hint = tool.CodeOutcomeUnknown, s.howToKnow()+" It is not run again under this id. Go on from the conversation."
	}
	return e
}

// OtherLayout says what is wrong with a record that another version has written.
const OtherLayout = "the record of this call has a layout that this version of Sidecall does not know"

// CorruptRecord says what is wrong with a record that cannot be what was written.
const CorruptRecord = "the record of this call is corrupt: nobody can tell from it what became of the call"

// Corrupt answers a call of which the record cannot be read. To run it would be to
// run it twice, perhaps; to send it again later changes nothing.
func (s *Subject) Corrupt() tool.Error {
	hint := s.howToKnow()
	if effect := s.Route.Tool.Effect; effect == tool.ReadOnly || effect == tool.Idempotent {
		hint = fmt.Sprintf("Nothing was sent now. Call %s again with a new id: to repeat it does no harm.", s.Route.Tool.Name)
	}
	return tool.Error{
		Code: tool.CodeOutcomeUnknown, Constraint: CorruptRecord, Received: tool.Quote(s.About.ID),
		Hint: hint + " The same id gets this answer until an operator has looked at the record.",
	}
}
