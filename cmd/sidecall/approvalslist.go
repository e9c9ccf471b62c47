package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// list prints the held calls.
func (a *approving) list() error {
	out := listWriter[*sidecallv1.HeldExecution](&heldTable{out: a.cmd.OutOrStdout()})
	if a.asJSON {
		out = &jsonList[*sidecallv1.HeldExecution]{out: a.cmd.OutOrStdout()}
	}
	listed, more, token := 0, false, ""
	for {
		res, err := a.client.Operator().ListHeld(a.cmd.Context(), &sidecallv1.ListHeldRequest{
			PageSize: listPage, PageToken: token, ConversationId: a.conversation,
		})
		if err != nil {
			return a.failed(err)
		}
		calls := res.GetExecutions()
		if a.limit > 0 && len(calls) > a.limit-listed {
			calls, more = calls[:a.limit-listed], true
		}
		if err := out.write(calls); err != nil {
			return err
		}
		listed += len(calls)
		token = res.GetNextPageToken()
		if token == "" || more {
			break
		}
	}
	if err := out.end(); err != nil {
		return err
	}
	a.sum(listed, more)
	return nil
}

// sum says on stderr how many calls there are, and how to go on.
func (a *approving) sum(listed int, more bool) {
	switch {
	case listed == 0 && !more:
		fmt.Fprintln(a.cmd.ErrOrStderr(), "sidecall: no call waits for a person's word")
	case a.asJSON:
	default:
		count := tool.Count(listed, "call")
		if more {
			count = "the first " + count + ", and more"
		}
		fmt.Fprintf(a.cmd.ErrOrStderr(), "sidecall: %s. Decide with: sidecall approvals approve|deny --id ID --conversation C --turn T --tenant N --as NAME --reason TEXT\n", count)
	}
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
