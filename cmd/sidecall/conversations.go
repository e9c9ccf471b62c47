package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const conversationsHelp = `What went wrong in a conversation: list those that AppendMessages keeps, and show one
as it went.

The sidecar is asked at its operator socket (operator in its config, mode 0600),
not where agents connect: --addr unix:///path, or --config FILE, or the environment
variable SIDECALL_OPERATOR, or ./sidecall.yaml, in this order.`

const showHelp = `Show a conversation as it went: each prompt, what the model said and called, with what
became of it, every error word for word, and what the model did after it.

The first error that was not recovered from is marked, with why its text was of little
help, as far as a program can tell. An error is recovered from when the same tool works
later in the same prompt; a prompt lasts from a message of the user's to the next.

Texts and turns are those of the messages that AppendMessages keeps. Of a conversation
without any its calls alone are shown, by their records, which are kept for the
retention; what is forgotten is said to be.

Exit codes: 0 shown; 1 there is no such conversation; 2 the command line is wrong; 3 the
sidecar or its store cannot be reached.`

func newConversations() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conversations",
		Short: "Show a conversation as it went, with the first error that it did not recover from",
		Long:  conversationsHelp,
		Args:  between(0, 0, "", "want list, show ID, or undo ID"),
		RunE: func(*cobra.Command, []string) error {
			return fail(exitUsage, errors.New("want sidecall conversations list, show ID or undo ID"))
		},
	}
	cmd.AddCommand(newConversationsList(), newConversationsShow(), newUndo())
	return cmd
}

func newConversationsShow() *cobra.Command {
	o := &operating{lost: lostList}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one conversation as it went",
		Long:  showHelp,
		Example: `  sidecall conversations show customer-7
  sidecall conversations show customer-7 --json | jq '.events[.first_unrecovered]'`,
		Args: between(1, 1, "name the conversation: `sidecall conversations list` lists them", "one conversation at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, func() error { return o.show(args[0]) })
		},
	}
	o.flags(cmd, "whose conversation it is")
	return cmd
}

// show prints a conversation, page by page.
func (o *operating) show(id string) error {
	t := &conversationText{out: o.cmd.OutOrStdout(), id: id, tenant: o.tenant}
	var whole *sidecallv1.ShowConversationResponse
	for from := int32(0); ; {
		res, err := o.client.Operator().ShowConversation(o.cmd.Context(), &sidecallv1.ShowConversationRequest{ConversationId: id, FromEvent: from})
		switch {
		case err != nil:
			return o.failed(err)
		case res.GetNextEvent() != 0 && res.GetNextEvent() <= from:
			return fail(exitUnavailable, errors.New("the pages of the conversation go round in circles: what answers is no sidecar"))
		case !o.asJSON:
			t.page(res, from)
		case whole == nil:
			whole = res
		default:
			whole.Events = append(whole.Events, res.GetEvents()...)
		}
		if from = res.GetNextEvent(); from == 0 {
			break
		}
	}
	if o.asJSON {
		whole.NextEvent = 0
		return writeMessage(o.cmd.OutOrStdout(), whole)
	}
	return t.err
}

// listing is a conversations list command.
type listing struct {
	operating

	since ago
	limit int
}

func newConversationsList() *cobra.Command {
	l := &listing{operating: operating{lost: lostList}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the conversations that AppendMessages keeps",
		Long: `List the conversations that AppendMessages keeps, in no particular order; with --since
those that were appended to after that. Whose program appends no messages is not
in the list: show one of its conversations by its id.

Exit codes: 0 listed; 2 the command line is wrong; 3 the sidecar or its store cannot be
reached.`,
		Example: "  sidecall conversations list --since 1h",
		Args:    between(0, 0, "", "a conversation is shown by sidecall conversations show ID"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.limit < 0 {
				return fail(exitUsage, errors.New("--limit: must not be negative"))
			}
			return l.run(cmd, l.list)
		},
	}
	l.flags(cmd, "whose conversations to list")
	cmd.Flags().Var(&l.since, "since", "appended to in this time, as in 24h or 7d")
	cmd.Flags().IntVar(&l.limit, "limit", 0, "list at most so many; 0 lists all")
	return cmd
}

func (l *listing) list() error {
	since := time.Now().Add(-l.since.Duration)
	people := table(l.cmd.OutOrStdout(), "AGE\tMESSAGES\tOPEN CALLS\tCONVERSATION", func(one *sidecallv1.ConversationSummary) string {
		if one.GetDamage() != "" {
			return fmt.Sprintf("?\t?\t?\t%s  (%s)", printable(one.GetConversationId()), shown(one.GetDamage()))
		}
		return fmt.Sprintf("%s\t%d\t%d\t%s", age(one.GetUpdatedAt().AsTime()), one.GetVersion(), one.GetOpenCalls(), printable(one.GetConversationId()))
	})
	listed, more, err := printList(&l.operating, people, l.limit, func(token string) ([]*sidecallv1.ConversationSummary, string, error) {
		res, err := l.client.Conversations().ListConversations(l.cmd.Context(), &sidecallv1.ListConversationsRequest{PageSize: listPage, PageToken: token})
		found := res.GetConversations()
		if l.since.Duration > 0 {
			found = appendedTo(found, since)
		}
		return found, res.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	switch {
	case listed == 0 && !more:
		fmt.Fprintln(l.cmd.ErrOrStderr(), "sidecall: no conversation is kept"+l.when()+": AppendMessages keeps them. One without messages is shown by its id")
	case more && !l.asJSON:
		fmt.Fprintf(l.cmd.ErrOrStderr(), "sidecall: the first %s, and more\n", tool.Count(listed, "conversation"))
	}
	return nil
}

// when says since when conversations are listed.
func (l *listing) when() string {
	if l.since.Duration == 0 {
		return ""
	}
	return " that was appended to in the last " + l.since.String()
}

// appendedTo are those of a list that were appended to after that, or may have been.
func appendedTo(all []*sidecallv1.ConversationSummary, since time.Time) (found []*sidecallv1.ConversationSummary) {
	for _, one := range all {
		if one.GetUpdatedAt() == nil || !one.GetUpdatedAt().AsTime().Before(since) {
			found = append(found, one)
		}
	}
	return found
}
