package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// list prints the held calls.
func (a *approving) list() error {
	listed, more, err := printList(a.cmd.OutOrStdout(), a.asJSON, &heldTable{out: a.cmd.OutOrStdout()}, a.limit,
		func(token string) ([]*sidecallv1.HeldExecution, string, error) {
			res, err := a.client.Operator().ListHeld(a.cmd.Context(), &sidecallv1.ListHeldRequest{
				PageSize: listPage, PageToken: token, ConversationId: a.conversation,
			})
			return res.GetExecutions(), res.GetNextPageToken(), a.failed(err)
		})
	if err == nil {
		writeCount(a.cmd.ErrOrStderr(), listed, more, a.asJSON, "no call waits for a person's word",
			"Decide with: sidecall approvals approve|deny --id ID --conversation C --turn T --tenant N --as NAME --reason TEXT")
	}
	return err
}

// heldTable is for people. Each part is aligned by itself; arguments stand on a line of their own.
type heldTable struct {
	out    io.Writer
	headed bool
}

func (t *heldTable) write(calls []*sidecallv1.HeldExecution) error {
	if len(calls) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if !t.headed {
		t.headed = true
		fmt.Fprintln(w, "AGE\tTOOL\tTENANT\tCONVERSATION\tTURN\tID\tUNTIL\tALLOWED BY\tASKED BECAUSE OF\tARGUMENTS")
	}
	for _, call := range calls {
		e, by := call.GetExecution(), "-"
		if e.GetApproval() != nil {
			by = printable(decider(e.GetApproval()))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", age(e.GetStartedAt().AsTime()), printable(e.GetToolName()),
			printable(call.GetTenant()), printable(call.GetConversationId()), printable(call.GetTurnId()), printable(call.GetToolUseId()),
			heldUntil(call), by, printableText(call.GetHold().GetReason()), heldArguments(call))
	}
	return w.Flush()
}

func (t *heldTable) end() error { return nil }

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
