package main

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// settle settles one call as the command line says.
func (r *resolving) settle() error {
	looked, err := r.client.Stub().GetExecution(r.cmd.Context(), &sidecallv1.GetExecutionRequest{
		ConversationId: r.conversation, TurnId: r.turn, ToolUseId: r.id,
	})
	if err != nil {
		return r.elsewhere(r.failed(err), err)
	}
	// What is not unknown may become so in the next moment, and then it would be
	// settled without a question to anybody.
	if looked.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
		return fail(exitFailed, r.notUnknown(looked))
	}
	r.describe(looked)
	req := &sidecallv1.ResolveExecutionRequest{
		ConversationId: r.conversation, TurnId: r.turn, ToolUseId: r.id, ValidateOnly: true,
		State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Reason: r.reason, Content: r.content, IsError: r.isError, ResolvedBy: r.by, Epoch: looked.GetEpoch(),
	}
	question := "Settle it as done, for good?"
	if r.as == "not_run" {
		req.State, question = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN, "Settle it as not_run?"
	}
	res, err := r.client.Operator().ResolveExecution(r.cmd.Context(), req)
	if err != nil {
		return r.failed(err)
	}
	r.preview(res.GetExecution())
	if err := r.confirm(question); err != nil {
		return err
	}
	req.ValidateOnly = false
	if res, err = r.client.Operator().ResolveExecution(r.cmd.Context(), req); err != nil {
		return r.failed(err)
	}
	if r.asJSON {
		return writeMessage(r.cmd.OutOrStdout(), res.GetExecution())
	}
	return r.settled(res.GetExecution())
}

// notUnknown says what a call is that is not unknown, and what to do.
func (r *resolving) notUnknown(e *sidecallv1.Execution) error {
	id := printable(r.id)
	switch e.GetState() {
	case sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED:
		return fmt.Errorf("the call %s is claimed: %s is running it, and its lease runs until %s; wait for its result",
			id, printable(e.GetOwner()), e.GetLeaseUntil().AsTime().Format(time.RFC3339))
	case sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN:
		return fmt.Errorf("the call %s is not_run already: it had no effect, or its tool may be repeated; nothing is to be settled, the same id may be sent again", id)
	case sidecallv1.ExecutionState_EXECUTION_STATE_DONE:
		return fmt.Errorf("the call %s is done already, since %s, and that is final: send it again to get its result",
			id, e.GetFinishedAt().AsTime().Format(time.RFC3339))
	case sidecallv1.ExecutionState_EXECUTION_STATE_HELD:
		return fmt.Errorf("the call %s is held: nothing was sent, and a person allows or denies it; nothing is to be settled, see `sidecall approvals`", id)
	case sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED:
		return fmt.Errorf("the call %s is closed, since %s, and that is final: its conversation has answered it, and it does not run",
			id, e.GetFinishedAt().AsTime().Format(time.RFC3339))
	default:
		return fmt.Errorf("the call %s is in a state that this command does not know: %s", id, e.GetState())
	}
}

// elsewhere adds to what was said of a call that there is not where one with its id is.
func (r *resolving) elsewhere(said, err error) error {
	if status.Code(err) != codes.NotFound {
		return said
	}
	found, err := r.client.Operator().FindExecutions(r.cmd.Context(), &sidecallv1.FindExecutionsRequest{ToolUseId: r.id, PageSize: 2})
	if err != nil || len(found.GetExecutions()) == 0 {
		return said // which is what was asked for
	}
	one := found.GetExecutions()[0]
	return fail(exitFailed, fmt.Errorf("%w\nthere is one with this id under %s", said, strings.Join(callFlags(one.GetTenant(), one.GetConversationId(), one.GetTurnId(), ""), " ")))
}

// describe shows the call that is about to be settled.
func (r *resolving) describe(e *sidecallv1.Execution) {
	fmt.Fprintf(r.cmd.ErrOrStderr(), "%s %s: unknown for %s, %s, epoch %d\n",
		printable(e.GetToolName()), printable(r.id), age(e.GetFinishedAt().AsTime()), tool.Count(int(e.GetAttempts()), "attempt"), e.GetEpoch())
	found, err := r.client.Operator().FindExecutions(r.cmd.Context(), &sidecallv1.FindExecutionsRequest{ToolUseId: r.id, ConversationId: r.conversation})
	if err != nil {
		return // what is known of it has been shown
	}
	for _, one := range found.GetExecutions() {
		if args := one.GetDetails().GetArgumentsJson(); args != "" && one.GetTurnId() == r.turn && one.GetConversationId() == r.conversation {
			fmt.Fprintf(r.cmd.ErrOrStderr(), "  sent %s\n", shown(args))
		}
	}
}

// preview shows what the model will be told of a call that is settled.
func (r *resolving) preview(would *sidecallv1.Execution) {
	out := r.cmd.ErrOrStderr()
	if would.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		fmt.Fprintln(out, "Whoever sends it again runs it, and is not told your reason.")
		return
	}
	fmt.Fprintln(out, "Whoever sends it again is told this, with your reason:")
	quote(out, would.GetResult().GetContent())
}

// settled says what a call is now, and what that means.
func (r *resolving) settled(e *sidecallv1.Execution) error {
	var what string
	switch e.GetState() {
	case sidecallv1.ExecutionState_EXECUTION_STATE_DONE:
		what = "done; whoever sends it again gets this result:\n" + e.GetResult().GetContent()
	case sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN:
		what = "not_run; whoever sends it again runs it"
	case sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED, sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN:
		what = "settled, and was sent again since: `sidecall find` tells what came of it"
	default:
		return fail(exitFailed, fmt.Errorf("the call %s is said to be settled, in a state that this command does not know: %s; look at it again",
			printable(r.id), e.GetState()))
	}
	_, err := fmt.Fprintf(r.cmd.OutOrStdout(), "%s is %s\n", printable(r.id), what)
	return err
}
