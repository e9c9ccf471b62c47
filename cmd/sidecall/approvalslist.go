package main

import (
	"strings"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// list prints the held calls. Arguments stand last: they are long.
func (a *approving) list() error {
	row := func(call *sidecallv1.HeldExecution) string {
		e, by := call.GetExecution(), "-"
		if e.GetApproval() != nil {
			by = printable(decider(e.GetApproval()))
		}
		return strings.Join([]string{
			age(e.GetStartedAt().AsTime()), printable(e.GetToolName()), printable(call.GetTenant()), printable(call.GetConversationId()), printable(call.GetTurnId()),
			printable(call.GetToolUseId()), heldUntil(call), by, printableText(call.GetHold().GetReason()), heldArguments(call),
		}, "\t")
	}
	people := table(a.cmd.OutOrStdout(), "AGE\tTOOL\tTENANT\tCONVERSATION\tTURN\tID\tUNTIL\tALLOWED BY\tASKED BECAUSE OF\tARGUMENTS", row)
	listed, more, err := printList(&a.operating, people, a.limit, func(token string) ([]*sidecallv1.HeldExecution, string, error) {
		res, err := a.client.Operator().ListHeld(a.cmd.Context(), &sidecallv1.ListHeldRequest{
			PageSize: listPage, PageToken: token, ConversationId: a.conversation,
		})
		return res.GetExecutions(), res.GetNextPageToken(), err
	})
	if err == nil {
		a.writeCount(listed, more, "no call waits for a person's word",
			"Decide with: sidecall approvals approve|deny --id ID --conversation C --turn T --tenant N --as NAME --reason TEXT")
	}
	return err
}

// heldUntil is until when a call is held.
func heldUntil(call *sidecallv1.HeldExecution) string {
	return call.GetHold().GetExpiresAt().AsTime().Format(time.RFC3339)
}

// heldArguments are the arguments that a call will be sent with, as far as they are kept.
func heldArguments(call *sidecallv1.HeldExecution) string {
	switch details := call.GetDetails(); {
	case details.GetArgumentsJson() == "":
		return "(not kept: the setting keep_arguments is none)"
	case details.GetArgumentsCut():
		return printableText(details.GetArgumentsJson()) + " (cut: they are longer)"
	default:
		return printableText(details.GetArgumentsJson())
	}
}

// decider names who has decided: by the name that they gave, and the user that they are.
func decider(made *sidecallv1.Resolution) string {
	switch claimed, by := made.GetClaimedBy(), made.GetBy(); {
	case claimed != "":
		return claimed + " (" + strings.Trim(by, "()") + ")"
	case by == "verification":
		return "a verification"
	default:
		return by
	}
}

// printableText shows a text that somebody else has chosen on one line of a terminal.
func printableText(text string) string {
	return strings.Join(strings.Fields(shown(text)), " ")
}
