package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const approvalsHelp = `Calls that a person has to allow first: their tool's config says so (approve_when,
require_confirmation_after). Nothing of them was sent. Each is shown with the
arguments that it will be sent with, but for those that are sensitive.

  list     the calls that wait, and those that are allowed and were not sent since
  approve  allow one of them: when its program sends it again, with the same id, it
           runs, once. It does not run by itself
  deny     settle one of them for good: whoever sends it again is told who has denied
           it and why

What is decided is decided of the arguments that were shown, and only for as long as
the call is held (approval_ttl). Who, why and when is logged by the sidecar, and kept
in the record. Who you are the operating system says; --as is kept beside that. Write
no secrets.

The sidecar is asked at its operator socket (operator in its config, mode 0600),
not where agents connect: --addr unix:///path, or --config FILE, or the environment
variable SIDECALL_OPERATOR, or ./sidecall.yaml, in this order.

Exit codes: 0 listed, or decided; 1 the call cannot be decided, or you said no; 2 the
command line is wrong; 3 the sidecar or its store cannot be reached.`

// approving is an approvals command: what its flags say, and the sidecar.
type approving struct {
	operating

	id, conversation, turn string
	as, reason             string
	yes                    bool
	limit                  int
}

func newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals list|approve|deny",
		Short: "List the calls that wait for a person's word, and allow or deny them",
		Long:  approvalsHelp,
		Example: `  sidecall approvals list
  sidecall approvals approve --conversation c1 --id toolu_01 --as ada --reason "checked with the customer"
  sidecall approvals deny --conversation c1 --id toolu_01 --as ada --reason "paid twice already"`,
		Args: between(0, 0, "", "expected list, approve or deny"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fail(exitUsage, errors.New("expected list, approve or deny: `sidecall approvals list` shows what waits"))
		},
	}
	cmd.AddCommand(
		newApprovalsCommand("list", "List the calls that wait for a person's word", (*approving).list),
		newApprovalsCommand("approve", "Allow one held call", func(a *approving) error { return a.decide(false) }),
		newApprovalsCommand("deny", "Deny one held call, for good", func(a *approving) error { return a.decide(true) }))
	return cmd
}

func newApprovalsCommand(name, short string, run func(*approving) error) *cobra.Command {
	a := &approving{operating: operating{lost: lostDecision}}
	lists := name == "list"
	cmd := &cobra.Command{
		Use: name, Short: short, Long: approvalsHelp,
		Args: between(0, 0, "", "a call is named by --id, --conversation and --turn, a config file by --config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.check(lists); err != nil {
				return fail(exitUsage, err)
			}
			return a.run(cmd, func() error { return run(a) })
		},
	}
	a.add(cmd, lists)
	return cmd
}

// add adds the flags.
func (a *approving) add(cmd *cobra.Command, lists bool) {
	a.flags(cmd, "whose call it is, or whose calls to list")
	flags := cmd.Flags()
	flags.StringVar(&a.conversation, "conversation", "", "conversation_id of the call, or of the calls to list")
	if lists {
		flags.IntVar(&a.limit, "limit", 0, "list at most so many; 0 lists all")
		return
	}
	flags.StringVar(&a.id, "id", "", "tool_use_id of the call")
	flags.StringVar(&a.turn, "turn", "", "its turn_id")
	flags.StringVar(&a.as, "as", "", "your name, at most 128 characters; kept beside the user that the system says you are")
	flags.StringVar(&a.reason, "reason", "", "why, at most 500 characters")
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask, decide")
}

// check refuses what a flag is missing for.
func (a *approving) check(lists bool) error {
	switch {
	case lists && a.limit < 0:
		return errors.New("--limit: must not be negative")
	case lists:
		return nil
	case a.id == "":
		return errors.New("--id: which call? `sidecall approvals list` shows them")
	case strings.TrimSpace(a.as) == "":
		return errors.New("--as is required: say who decides, for whoever reads the record later")
	case strings.TrimSpace(a.reason) == "":
		return errors.New("--reason is required: say why, for whoever reads the record later")
	}
	return nil
}

// decide allows or denies one call, as it was shown.
func (a *approving) decide(deny bool) error {
	looked, err := a.client.Operator().ListHeld(a.cmd.Context(), &sidecallv1.ListHeldRequest{
		ConversationId: a.conversation, TurnId: a.turn, ToolUseId: a.id,
	})
	if err != nil {
		return a.failed(err)
	}
	if len(looked.GetExecutions()) != 1 {
		return fail(exitFailed, fmt.Errorf("the sidecar has %d held calls of one id: is it of this version?", len(looked.GetExecutions())))
	}
	held := looked.GetExecutions()[0]
	a.describe(held)
	question, done := "Allow it?", "allowed"
	if deny {
		question, done = "Deny it, for good?", "denied"
	}
	if !a.yes {
		if err := confirm(a.cmd, question, done); err != nil {
			return err
		}
	}
	now, err := a.send(held, deny)
	if err != nil {
		return a.failed(err)
	}
	return a.decided(now, deny)
}

// send sends a decision about the call that was shown, and about no other.
func (a *approving) send(held *sidecallv1.HeldExecution, deny bool) (*sidecallv1.Execution, error) {
	hold, fingerprint := held.GetExecution().GetOwner(), held.GetFingerprint()
	if deny {
		res, err := a.client.Operator().DenyExecution(a.cmd.Context(), &sidecallv1.DenyExecutionRequest{
			ConversationId: a.conversation, TurnId: a.turn, ToolUseId: a.id,
			DecidedBy: a.as, Reason: a.reason, Hold: hold, Fingerprint: fingerprint,
		})
		return res.GetExecution(), err
	}
	res, err := a.client.Operator().ApproveExecution(a.cmd.Context(), &sidecallv1.ApproveExecutionRequest{
		ConversationId: a.conversation, TurnId: a.turn, ToolUseId: a.id,
		DecidedBy: a.as, Reason: a.reason, Hold: hold, Fingerprint: fingerprint,
	})
	return res.GetExecution(), err
}

// describe shows the call that is about to be decided.
func (a *approving) describe(held *sidecallv1.HeldExecution) {
	out := a.cmd.ErrOrStderr()
	fmt.Fprintf(out, "%s %s: held for %s, until %s: %s\n", printable(held.GetExecution().GetToolName()), printable(a.id),
		age(held.GetExecution().GetStartedAt().AsTime()), heldUntil(held), printableText(held.GetHold().GetReason()))
	fmt.Fprintf(out, "  arguments: %s\n", heldArguments(held))
	if approval := held.GetExecution().GetApproval(); approval != nil {
		fmt.Fprintf(out, "  allowed by %s: %s\n", printable(decider(approval)), printableText(approval.GetReason()))
	}
}

// ended are the states of a call that nobody is asked of any more.
var ended = []sidecallv1.ExecutionState{
	sidecallv1.ExecutionState_EXECUTION_STATE_DONE, sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN,
	sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED,
}

// decided says what a call is now, and what that means. One that was allowed may have been sent since.
func (a *approving) decided(e *sidecallv1.Execution, deny bool) error {
	if a.asJSON {
		return writeMessage(a.cmd.OutOrStdout(), e)
	}
	var what string
	switch state := e.GetState(); {
	case deny && state == sidecallv1.ExecutionState_EXECUTION_STATE_DONE:
		what = "denied; whoever sends it again is told so"
	case !deny && state == sidecallv1.ExecutionState_EXECUTION_STATE_HELD:
		what = "allowed, until " + e.GetLeaseUntil().AsTime().Format(time.RFC3339) + "; it runs when its program sends it again with the same id, as long as its tool is there"
	case !deny && state == sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED:
		what = "allowed, and running already"
	case !deny && slices.Contains(ended, state):
		what = "allowed, and more has become of it since: `sidecall find` tells what"
	default:
		return fail(exitFailed, fmt.Errorf("the call %s is said to be decided, in a state that this command does not know: %s; look at it again",
			printable(a.id), e.GetState()))
	}
	_, err := fmt.Fprintf(a.cmd.OutOrStdout(), "%s is %s\n", printable(a.id), what)
	return err
}
