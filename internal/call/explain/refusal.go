package explain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// How long a caller is told to wait.
const (
	// WhenOverloaded is when there was no room for the call.
	WhenOverloaded = time.Second
	// WhenStoreDown is while the store cannot be asked.
	WhenStoreDown = 2 * time.Second
	// WhenUndiscovered is while the tools of a backend are not known yet.
	WhenUndiscovered = 2 * time.Second
	// WhenInProgress is while somebody else runs the call.
	WhenInProgress = time.Second
)

// UnknownProfile refuses a profile that the caller is not offered.
func UnknownProfile(name string, offered []string) tool.Error {
	return tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("the profile %s is not offered here", tool.Quote(name)),
		Received:   tool.Quote(name),
		Hint: fmt.Sprintf("The agent's program must send one of the profiles that are: %s. Do not call tools until it does.",
			strings.Join(offered, ", ")),
	}
}

// CutShort refuses a call of a message that ended too early, in the provider's word.
func CutShort(cut string) tool.Error {
	return tool.Error{
		Code:       tool.CodeCancelled,
		Constraint: fmt.Sprintf("the message ends early (%s), so its calls may be incomplete", cut),
		Hint:       "Nothing was run. Make the calls again, fewer of them or with shorter arguments in one message.",
	}
}

// TooLarge refuses a call whose arguments have more bytes than a request may have.
func TooLarge(name string, bytes, most int) tool.Error {
	return tool.Error{
		Code:       tool.CodeInvalidArgs,
		Constraint: fmt.Sprintf("a call has at most %d bytes (limits.max_request_bytes)", most),
		Received:   fmt.Sprintf("(%d bytes of arguments)", bytes),
		Hint:       fmt.Sprintf("Nothing was run. Shorten the arguments, or split them, then call %s again: once for each part.", name),
	}
}

// Undiscovered refuses a tool that may be one of backends whose tools are not known
// yet. Why they are not is for operators: a model cannot act on it.
func Undiscovered(name string, awaited []string) tool.Error {
	constraint := "it may be a tool of the backend %s, whose tools are not known yet"
	if len(awaited) > 1 {
		constraint = "it may be a tool of one of the backends %s, whose tools are not known yet"
	}
	return tool.Error{
		Code:       tool.CodeDependencyUnavailable,
		Constraint: fmt.Sprintf(constraint, strings.Join(awaited, ", ")),
		Received:   tool.Quote(name),
		Hint: fmt.Sprintf("Call %s again after %s if it is one of the tools you were given; nothing was sent. If you made the name up, use the tools you were given.",
			name, tool.RoundTime(WhenUndiscovered)),
	}
}

// Unwritable refuses arguments that have no canonical form; why says what is
// wrong with them.
func Unwritable(name string, why error, received string) tool.Error {
	return tool.Error{
		Code: tool.CodeInvalidArgs, Constraint: why.Error(), Received: tool.Quote(received),
		Hint: fmt.Sprintf("Correct the arguments, then call %s again.", name),
	}
}

// Forbidden refuses a tool that the profile may not call.
func Forbidden(name, profile string) tool.Error {
	return tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("the profile %q may not call %s", profile, name),
		Received:   tool.Quote(name),
		Hint:       "Do not repeat this call: it stays forbidden. Use only the tools you were given, or tell the user.",
	}
}

// Tainted refuses a sensitive tool after untrusted output.
func (s *Subject) Tainted() tool.Error {
	return tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("%s is sensitive: it may not be called in a prompt that output of an untrusted tool has entered", s.Route.Tool.Name),
		Received:   tool.Quote(s.Route.Tool.Name),
		Hint: fmt.Sprintf("Nothing was sent now. Do not call %s again in this prompt: tell the user what you would do and why, "+
			"and go on when the user asks for it in a new message.", s.Route.Tool.Name) + s.warnOfAnother(),
	}
}

// Pinned refuses a tool that says something else of itself than it once did; why says it.
func Pinned(name, why string) tool.Error {
	return tool.Error{Code: tool.CodePermissionDenied, Constraint: why, Hint: AskAboutPin(name)}
}

// AskAboutPin is what to do about a tool that an operator has to accept first.
func AskAboutPin(name string) string {
	return fmt.Sprintf("Nothing was sent. Do not call %s again: use another tool, or tell the user that an operator has to look at the change.", name)
}

// Overloaded refuses a call of whose id nothing is known: looking it up
// would be more of what there is too much of already. So it promises nothing
// about earlier requests with this id, and warns where that matters. full says
// which limit keeps the call out.
func (s *Subject) Overloaded(full string) tool.Error {
	hint := fmt.Sprintf("Nothing was sent now. Send the same call with the same id again after %s, with fewer calls at the same time.", WhenOverloaded)
	return tool.Error{Code: tool.CodeOverloaded, Constraint: full, Hint: hint + s.warnOfAnother()}
}

// AtCapacity refuses a call whose record was looked at. The record of an
// effect that may be repeated does not prove that nothing was done; none at all
// does, but for a twin that is just being admitted: hence the same id.
func (s *Subject) AtCapacity(full string, state dedupe.State) tool.Error {
	if state != dedupe.Absent && s.Route.Tool.Effect != tool.NonIdempotent {
		return s.Overloaded(full)
	}
	return tool.Error{
		Code:       tool.CodeOverloaded,
		Constraint: full,
		Hint:       fmt.Sprintf("Nothing was sent. Call %s again with the same id after %s, with fewer calls at the same time.", s.Route.Tool.Name, WhenOverloaded),
	}
}

// Reused refuses an id that stands for another call.
func (s *Subject) Reused(record dedupe.Record) tool.Error {
	what := "other arguments"
	if record.Tool != s.Route.Tool.Name {
		what = "another tool, " + record.Tool
	}
	return tool.Error{
		Code:       tool.CodeIDReused,
		Constraint: fmt.Sprintf("the id %s was used before with %s", tool.Quote(s.About.ID), what),
		Received:   tool.Quote(s.About.ID),
		Hint: fmt.Sprintf("Nothing was sent. Call %s with a new id; the program must send a turn_id when its ids repeat from turn to turn.",
			s.Route.Tool.Name),
	}
}

// InProgress answers a duplicate of a call that is still running.
func InProgress(id string) tool.Error {
	return tool.Error{
		Code:       tool.CodeInProgress,
		Constraint: "a call with this id is still running",
		Received:   tool.Quote(id),
		Hint:       "Do not start it a second time: ask for the result again with the same id after 1s.",
	}
}

// StoreDown refuses a call whose record cannot be seen: an earlier
// request with its id may have done everything. A store that has failed does not
// come back by itself: its file is named, for whoever can see to it.
func (s *Subject) StoreDown(why error) tool.Error {
	if failed, ok := errors.AsType[*dedupe.FailedError](why); ok {
		return tool.Error{
			Code:       tool.CodeStoreUnavailable,
			Constraint: fmt.Sprintf("the store that keeps calls from happening twice has failed: its file %s is damaged or gone", filepath.Base(failed.File)),
			Hint: "Nothing was sent now. Calls are refused until an operator has seen to the file and started Sidecall anew: " +
				"tell the user, or go on without it. After that, send the same call with the same id again." + s.warnOfAnother(),
		}
	}
	constraint := "the store that keeps calls from happening twice is down"
	switch {
	case errors.Is(why, dedupe.ErrLayout):
		constraint = OtherLayout
	case errors.Is(why, dedupe.ErrFull):
		constraint = "the store that keeps calls from happening twice is full"
	}
	return tool.Error{
		Code: tool.CodeStoreUnavailable, Constraint: constraint,
		Hint: fmt.Sprintf("Nothing was sent now. Send the same call with the same id again %s, or go on without it.",
			after(WhenStoreDown)) + s.warnOfAnother(),
	}
}

// LostResult answers a call whose record has lost its result.
func LostResult(name string) tool.Error {
	return tool.Error{
		Code:       tool.CodeInvalidOutput,
		Constraint: "the call was done before, but its result cannot be read any more",
		Hint:       fmt.Sprintf("%s has happened. Do not call it again; read the current state instead.", name),
	}
}

// NotStarted says why a call ended before it was sent: its time ran out, or its
// caller left. why is the cause of its context's end.
func (s *Subject) NotStarted(why error, elapsed time.Duration) tool.Error {
	explained := tool.Error{
		Code: tool.CodeTimeout, Constraint: fmt.Sprintf("the deadline of the call passed after %s, before it was sent", tool.RoundTime(elapsed)),
	}
	again := "later"
	if errors.Is(why, context.Canceled) {
		again = "if it is still wanted"
		explained.Code, explained.Constraint = tool.CodeCancelled, "the caller cancelled before it was sent"
	}
	explained.Hint = fmt.Sprintf("Nothing was sent. Call %s again %s.", s.Route.Tool.Name, again)
	if s.MayHaveRun {
		explained.Hint = fmt.Sprintf("Nothing was sent now. Send the same call with the same id again %s.", again) + s.warnOfAnother()
	}
	return explained
}

// NeverRun answers a call whose program ended before it was run.
func NeverRun(name string) tool.Error {
	return tool.Error{
		Code: tool.CodeCancelled, Constraint: "the program that made the call ended before it was run",
		Hint: fmt.Sprintf("Nothing was run. Call %s again if it is still wanted.", name),
	}
}

// Interrupted answers a call that a mistake in the sidecar ended. The operator finds id in the log, beside
// the stack.
func Interrupted(id string) tool.Error {
	return tool.Error{
		Code:       tool.CodeInternal,
		Constraint: constraints[tool.CodeInternal],
		Hint:       fmt.Sprintf("Do not repeat this call. Tell the user to report the error id %s.", id),
	}
}
