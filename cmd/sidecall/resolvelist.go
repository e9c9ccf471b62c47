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
	out := listWriter[*sidecallv1.UnknownExecution](&unknownTable{out: r.cmd.OutOrStdout()})
	if r.asJSON {
		out = &jsonList[*sidecallv1.UnknownExecution]{out: r.cmd.OutOrStdout()}
	}
	listed, more, token := 0, false, ""
	for {
		res, err := r.client.Operator().ListUnknown(r.cmd.Context(), &sidecallv1.ListUnknownRequest{PageSize: listPage, PageToken: token})
		if err != nil {
			return r.failed(err)
		}
		calls := res.GetExecutions()
		if r.limit > 0 && len(calls) > r.limit-listed {
			calls, more = calls[:r.limit-listed], true
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
	r.sum(listed, more)
	return nil
}

// sum says on stderr how many calls there are, and how to go on.
func (r *resolving) sum(listed int, more bool) {
	errOut := r.cmd.ErrOrStderr()
	switch {
	case listed == 0 && !more:
		fmt.Fprintln(errOut, "sidecall: no call is of unknown outcome")
	case r.asJSON:
	default:
		count := tool.Count(listed, "call")
		if more {
			count = "the first " + count + ", and more"
		}
		fmt.Fprintf(errOut, "sidecall: %s. Find out whether a call has happened, then: sidecall resolve --id ID --conversation C --turn T --tenant N --as done|not_run --reason TEXT\n", count)
	}
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
