package main

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// listPage is how many calls are asked for at once: a list of any length is
// printed as it comes, and never held.
const listPage = 1000

// list prints the unknown calls.
func (r *resolving) list() error {
	row := func(call *sidecallv1.UnknownExecution) string {
		e := call.GetExecution()
		since, name := "?", "(record is corrupt)"
		switch {
		case call.GetError().GetCode() == string(tool.CodeStoreUnavailable):
			name = "(record of another version)"
		case e.GetEpoch() > 0:
			since, name = age(e.GetFinishedAt().AsTime()), printable(e.GetToolName())
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", since, name,
			printable(call.GetTenant()), printable(call.GetConversationId()), printable(call.GetTurnId()), printable(call.GetToolUseId()), e.GetAttempts(), howToVerify(call))
	}
	people := table(r.cmd.OutOrStdout(), "AGE\tTOOL\tTENANT\tCONVERSATION\tTURN\tID\tATTEMPTS\tTO VERIFY", row)
	listed, more, err := printList(&r.operating, people, r.limit, func(token string) ([]*sidecallv1.UnknownExecution, string, error) {
		res, err := r.client.Operator().ListUnknown(r.cmd.Context(), &sidecallv1.ListUnknownRequest{PageSize: listPage, PageToken: token})
		return res.GetExecutions(), res.GetNextPageToken(), err
	})
	if err == nil {
		r.writeCount(listed, more, "no call is of unknown outcome",
			"Find out whether a call has happened, then: sidecall resolve --id ID --conversation C --turn T --tenant N --as done|not_run --reason TEXT")
	}
	return err
}

// howToVerify says how to find out what became of a call.
func howToVerify(call *sidecallv1.UnknownExecution) string {
	switch {
	case call.GetVerifiable():
		return "--verify"
	case call.GetVerifyWith() != "":
		return "call " + printable(call.GetVerifyWith())
	default:
		return "at the upstream"
	}
}
