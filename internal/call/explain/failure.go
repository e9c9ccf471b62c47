package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// Failure explains the last failure of a call's attempts.
func (s *Subject) Failure(f *tool.Failure, report retry.Report) tool.Error {
	name, secrets := s.Route.Tool.Name, s.Route.Secrets
	explained := tool.Error{
		Code:       f.Code,
		Field:      Cleaned(secrets, f.Field, maxField),
		Constraint: Cleaned(secrets, f.Constraint, maxConstraint),
		Received:   s.said(f),
		Hint:       Cleaned(secrets, f.Hint, maxHint),
	}
	if explained.Constraint == "" {
		explained.Constraint = constraints[f.Code]
	}
	if explained.Hint == "" {
		explained.Hint = s.hint(f)
	}
	if blocked := NotNow(s.Snapshot, f.AllowedAlternatives); blocked != "" {
		explained.Hint += " " + blocked
	}
	if f.Evidence == tool.Definite && s.EarlierMayHaveRun {
		explained.Hint += " But an earlier attempt of this call may have had its effect: look at the current state before you rely on this answer."
	}
	explained.Hint += s.whoSays(f, explained.Received)
	if s.Sent > 1 {
		explained.Hint += fmt.Sprintf(" Sidecall made %d attempts at %s over %s.", s.Sent, name, tool.RoundTime(report.Elapsed))
	}
	if report.Stop == retry.StopBudgetEmpty {
		calls, retries := s.Route.Retries.Recent()
		explained.Hint += fmt.Sprintf(" It was not sent again by itself: the retry budget of the backend %s is used up (in the last %s retries: %d, calls: %d).",
			s.Route.Tool.Backend, retry.BudgetWindow, retries, calls)
	}
	return explained
}

// constraints say what was violated when neither the backend nor the tool's
// error mapping said it.
var constraints = map[tool.Code]string{
	tool.CodeNotFound:              "the upstream does not know what the arguments name",
	tool.CodePermissionDenied:      "the upstream does not allow this",
	tool.CodeUnauthenticated:       "the upstream does not accept the sidecar's credentials",
	tool.CodeConflict:              "the state at the upstream does not allow this now",
	tool.CodeBusinessRule:          "a rule of the upstream forbids this",
	tool.CodeUnrecoverable:         "the tool failed for good",
	tool.CodeRateLimited:           "the upstream takes no more requests at the moment",
	tool.CodeTimeout:               "the tool did not answer in time",
	tool.CodeDependencyUnavailable: "the upstream cannot be reached or fails",
	tool.CodeCircuitOpen:           "the upstream has been failing, so nothing is sent to it for a while",
	tool.CodeInvalidOutput:         "the tool's answer cannot be read",
	tool.CodeCancelled:             "the caller cancelled the call",
	tool.CodeStoreUnavailable:      "the call cannot be recorded",
	tool.CodeInvalidArgs:           "the tool rejects the arguments",
	tool.CodeUnknownTool:           "the backend does not know this tool any more",
	tool.CodeInternal:              "the sidecar failed while it ran this call",
}

// hint says what to do next after a failure that brought no hint of its own.
func (s *Subject) hint(f *tool.Failure) string {
	name := s.Route.Tool.Name
	alternatives := ""
	if open := Open(s.Snapshot, f.AllowedAlternatives); len(open) > 0 {
		alternatives = " You may call instead: " + strings.Join(open, ", ") + "."
	}
	if f.Code.Class() == tool.Transient && f.Evidence != tool.Definite && s.MayHaveRun {
		return s.onlySameID(f.RetryAfter)
	}
	switch f.Code {
	case tool.CodeInvalidArgs:
		return fmt.Sprintf("Correct the arguments as described, then call %s again.", name)
	case tool.CodeNotFound:
		return fmt.Sprintf("Look up the right id first, then call %s with it; the same arguments will fail again.", name) + alternatives
	case tool.CodePermissionDenied:
		return "Do not repeat this call: it stays forbidden. Use another way, or tell the user." + alternatives
	case tool.CodeUnauthenticated:
		return fmt.Sprintf("Do not repeat this call. Tell the user that an operator must renew the credentials of %q.", s.Route.Tool.Backend)
	case tool.CodeConflict:
		return fmt.Sprintf("Read the current state first, then decide whether to call %s again.", name) + alternatives
	case tool.CodeBusinessRule:
		return "Do not repeat this call: the answer will be the same. Choose another way, or tell the user." + alternatives
	case tool.CodeRateLimited, tool.CodeCircuitOpen, tool.CodeOverloaded, tool.CodeStoreUnavailable:
		again := fmt.Sprintf("Call %s again %s, or go on without it.", name, after(f.RetryAfter))
		if s.Sent == 0 {
			return "Nothing was sent. " + again
		}
		return again
	case tool.CodeTimeout:
		return fmt.Sprintf("Ask %s for less at a time (a smaller range, fewer items), or call it again later.", name)
	case tool.CodeDependencyUnavailable:
		return fmt.Sprintf("Do not call %s again right away: try it %s, go on without it, or tell the user.", name, after(f.RetryAfter))
	case tool.CodeCancelled:
		return fmt.Sprintf("Call %s again if it is still wanted.", name)
	case tool.CodeInvalidOutput:
		return fmt.Sprintf("The tool ran. Do not repeat the call; tell the user that the answer of %s cannot be read.", name)
	default:
		return "Do not repeat this call as it is. Change the approach, or tell the user." + alternatives
	}
}

// onlySameID is for a call that may have run, and that its id keeps from running
// twice: a model that calls again has another id.
func (s *Subject) onlySameID(wait time.Duration) string {
	name := s.Route.Tool.Name
	hint := fmt.Sprintf("%s may have run: do not start it anew under another id. Sending the same call with the same id again %s is safe", name, after(wait))
	if verify := s.Route.Tool.Policy.VerifyWith; verify != "" {
		return hint + fmt.Sprintf("; or %s.", s.askWith(verify))
	}
	return hint + "; or tell the user."
}

// warnOfAnother warns of what an earlier request with this id may have done.
func (s *Subject) warnOfAnother() string {
	if !s.MayHaveRun {
		return ""
	}
	return fmt.Sprintf(" If this id was sent before, %s may have run then: do not start it anew under another id.", s.Route.Tool.Name)
}

func after(wait time.Duration) string {
	if wait <= 0 {
		return "later"
	}
	return "after " + tool.RoundTime(wait).String()
}
