package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const receiptsHelp = `Find out whether anything was changed or left out in what is kept of the effects of a
conversation. With receipts: true in the config each settlement of a call with an effect
leaves a receipt (id, fingerprint, outcome, time), which has the hash of the one before it.
Compared are the receipts with each other and with the records of the calls.

Whoever can write to the store could write all of it anew. So note the head that is told,
elsewhere, and give it as --noted the next time: what stood there then must still stand
there.

Without --conversation all are verified that AppendMessages keeps.

Exit codes: 0 nothing was changed or left out; 1 something was, or there is no such
conversation; 2 the command line is wrong; 3 the sidecar or its store cannot be reached.`

// verifying is a receipts verify command.
type verifying struct {
	operating

	conversation, noted string
	// list is what is printed for programs of all conversations.
	list *jsonList[*sidecallv1.VerifyReceiptsResponse]
	// compared are the conversations that have receipts.
	compared int
}

func newReceipts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipts",
		Short: "Verify the receipts of what was done",
		Long:  receiptsHelp,
		Args:  between(0, 0, "", "want verify"),
		RunE: func(*cobra.Command, []string) error {
			return fail(exitUsage, errors.New("want sidecall receipts verify"))
		},
	}
	cmd.AddCommand(newReceiptsVerify())
	return cmd
}

func newReceiptsVerify() *cobra.Command {
	v := &verifying{operating: operating{lost: lostList}}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Find out whether anything was changed or left out",
		Long:  receiptsHelp,
		Example: `  sidecall receipts verify --conversation customer-7
  sidecall receipts verify --conversation customer-7 --noted 12:9f86d081884c7d65...`,
		Args: between(0, 0, "", "a conversation is named by --conversation"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.noted != "" && v.conversation == "" {
				return fail(exitUsage, errors.New("--noted needs --conversation: whose head is it?"))
			}
			return v.run(cmd, v.verify)
		},
	}
	v.flags(cmd, "whose conversation it is")
	cmd.Flags().StringVar(&v.conversation, "conversation", "", "the conversation; without it all that AppendMessages keeps")
	cmd.Flags().StringVar(&v.noted, "noted", "", "the head that was told before")
	return cmd
}

func (v *verifying) verify() error {
	if v.conversation != "" {
		bad, err := v.one(v.conversation)
		return v.ended(bad, err)
	}
	bad, looked := false, 0
	v.list = &jsonList[*sidecallv1.VerifyReceiptsResponse]{out: v.cmd.OutOrStdout()}
	for token := ""; ; {
		page, err := v.client.Conversations().ListConversations(v.cmd.Context(), &sidecallv1.ListConversationsRequest{PageSize: listPage, PageToken: token})
		if err != nil {
			return v.failed(err)
		}
		for _, summary := range page.GetConversations() {
			looked++
			changed, err := v.one(summary.GetConversationId())
			if err != nil {
				return err
			}
			bad = bad || changed
		}
		if token = page.GetNextPageToken(); token != "" {
			continue
		}
		if v.compared == 0 {
			fmt.Fprintf(v.cmd.ErrOrStderr(), "sidecall: nothing was compared: of %s that AppendMessages keeps none has a receipt; --conversation names another\n", tool.Count(looked, "conversation"))
		}
		if v.asJSON {
			err = v.list.end()
		}
		return v.ended(bad, err)
	}
}

func (*verifying) ended(bad bool, err error) error {
	if err == nil && bad {
		return fail(exitFailed, nil)
	}
	return err
}

// one verifies a conversation, and tells of it: of many only if it has receipts.
func (v *verifying) one(id string) (bad bool, err error) {
	res, err := v.client.Operator().VerifyReceipts(v.cmd.Context(), &sidecallv1.VerifyReceiptsRequest{ConversationId: id, NotedHead: v.noted})
	switch {
	case v.list != nil && status.Code(err) == codes.NotFound: // it was forgotten since it was listed
		return false, nil
	case err != nil:
		return false, v.failed(err)
	}
	if bad = len(res.GetProblems()) > 0; bad || res.GetReceipts() > 0 {
		v.compared++
	}
	switch out := v.cmd.OutOrStdout(); {
	case v.asJSON && v.conversation != "":
		return bad, writeMessage(out, res)
	case v.asJSON && (bad || res.GetReceipts() > 0):
		return bad, v.list.write([]*sidecallv1.VerifyReceiptsResponse{res})
	case v.asJSON:
	case res.GetReceipts() == 0 && !bad:
		if v.conversation != "" {
			fmt.Fprintf(v.cmd.ErrOrStderr(), "sidecall: there is no receipt of %s%s\n", printable(id), whyNone(res))
		}
	default:
		v.tell(id, res)
	}
	return bad, nil
}

func whyNone(res *sidecallv1.VerifyReceiptsResponse) string {
	if res.GetEnabled() {
		return ": nothing with an effect was settled in it, or it is forgotten"
	}
	return ": receipts is not set in the config"
}

func (v *verifying) tell(id string, res *sidecallv1.VerifyReceiptsResponse) {
	out := v.cmd.OutOrStdout()
	switch {
	case len(res.GetProblems()) > 0:
		fmt.Fprintf(out, "%s: %s\n", printable(id), tool.Count(len(res.GetProblems())+int(res.GetProblemsLeft()), "problem"))
	case res.GetSince() == nil:
		fmt.Fprintf(out, "%s: all receipts are forgotten\n", printable(id))
	default:
		fmt.Fprintf(out, "%s: nothing was changed or left out since %s\n", printable(id), instantOf(res.GetSince().AsTime()))
	}
	for _, problem := range res.GetProblems() {
		paragraph(out, "  CHANGED  ", problem)
	}
	fmt.Fprintf(out, "  %s, %d compared, the first %d are forgotten\n", tool.Count(int(res.GetReceipts()), "receipt"), res.GetChecked(), res.GetForgotten())
	if res.GetMore() {
		fmt.Fprintln(out, "  there are more receipts or calls than are looked at: the last 10,000")
	}
	fmt.Fprintf(out, "  head %s\n", res.GetHead())
}
