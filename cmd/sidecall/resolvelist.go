package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// listPage is how many calls are asked for at once: a list of any length is
// printed as it comes, and never held.
const listPage = 1000

// list prints the unknown calls.
func (r *resolving) list() error {
	listed, more, err := printList(r.cmd.OutOrStdout(), r.asJSON, &unknownTable{out: r.cmd.OutOrStdout()}, r.limit,
		func(token string) ([]*sidecallv1.UnknownExecution, string, error) {
			res, err := r.client.Operator().ListUnknown(r.cmd.Context(), &sidecallv1.ListUnknownRequest{PageSize: listPage, PageToken: token})
			return res.GetExecutions(), res.GetNextPageToken(), r.failed(err)
		})
	if err == nil {
		writeCount(r.cmd.ErrOrStderr(), listed, more, r.asJSON, "no call is of unknown outcome",
			"Find out whether a call has happened, then: sidecall resolve --id ID --conversation C --turn T --tenant N --as done|not_run --reason TEXT")
	}
	return err
}

// unknownTable is for people. Each part is aligned by itself.
type unknownTable struct {
	out    io.Writer
	headed bool
}

func (t *unknownTable) write(calls []*sidecallv1.UnknownExecution) error {
	if len(calls) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if !t.headed {
		t.headed = true
		fmt.Fprintln(w, "AGE\tTOOL\tTENANT\tCONVERSATION\tTURN\tID\tATTEMPTS\tTO VERIFY")
	}
	for _, call := range calls {
		e := call.GetExecution()
		since, name := "?", "(record is corrupt)"
		switch {
		case call.GetError().GetCode() == string(tool.CodeStoreUnavailable):
			name = "(record of another version)"
		case e.GetEpoch() > 0:
			since, name = age(e.GetFinishedAt().AsTime()), printable(e.GetToolName())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", since, name,
			printable(call.GetTenant()), printable(call.GetConversationId()), printable(call.GetTurnId()), printable(call.GetToolUseId()), e.GetAttempts(), howToVerify(call))
	}
	return w.Flush()
}

func (t *unknownTable) end() error { return nil }

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
