package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const undoHelp = `List what has happened in a conversation, the latest first, and for each effect the
call that undoes it, ready to be sent: where its tool says so (compensate_with in the
config). What cannot be undone by a call is listed too, and why. Nothing is undone by this
command: send the calls yourself, in the order in which they are listed, after you have
looked at them. Each has an id of its own, so that it runs once, however often it is sent.

Exit codes: 0 everything listed can be undone, or is; 1 something cannot, or nothing has
happened; 2 the command line is wrong; 3 the sidecar or its store cannot be reached.`

// undoing is an undo command.
type undoing struct {
	operating

	planned bool
	req     sidecallv1.PlanUndoRequest
}

func newUndo() *cobra.Command {
	u := &undoing{operating: operating{lost: lostList}}
	cmd := &cobra.Command{
		Use:   "undo CONVERSATION --plan",
		Short: "Plan how what a conversation has done is undone",
		Long:  undoHelp,
		Example: `  sidecall conversations undo c1 --plan
  sidecall conversations undo c1 --plan --prompt p3`,
		Args: between(1, 1, "name the conversation", "one conversation at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !u.planned {
				return fail(exitUsage, fmt.Errorf("--plan is required: nothing is undone by itself, the calls are listed for you to send"))
			}
			u.req.ConversationId = args[0]
			return u.run(cmd, u.plan)
		},
	}
	u.flags(cmd, "whose conversation")
	flags := cmd.Flags()
	flags.BoolVar(&u.planned, "plan", false, "list the calls; nothing is sent")
	flags.StringVar(&u.req.PromptId, "prompt", "", "what was done for this prompt only")
	flags.StringVar(&u.req.ToolUseId, "id", "", "what this call has done only")
	return cmd
}

// plan prints what has happened, and how it is undone.
func (u *undoing) plan() error {
	cmd := u.cmd
	people := func(effects []*sidecallv1.CommittedEffect) error { return writeEffects(cmd.OutOrStdout(), effects) }
	left := 0
	listed, _, err := printList(&u.operating, people, 0, func(token string) ([]*sidecallv1.CommittedEffect, string, error) {
		u.req.PageToken = token
		res, err := u.client.Operator().PlanUndo(cmd.Context(), &u.req)
		for _, effect := range res.GetEffects() {
			if effect.GetUndo() == nil {
				left++
			}
		}
		return res.GetEffects(), res.GetNextPageToken(), err
	})
	switch {
	case err != nil:
		return err
	case listed == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "sidecall: nothing has happened that could be undone")
		return fail(exitFailed, nil)
	case left > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "sidecall: %d of %d cannot be undone by a call\n", left, listed)
		return fail(exitFailed, nil)
	}
	return nil
}

// writeEffects prints effects for people, each with the command that undoes it.
func writeEffects(out io.Writer, effects []*sidecallv1.CommittedEffect) error {
	var b strings.Builder
	for _, effect := range effects {
		state := "done"
		if effect.GetUnknown() {
			state = "UNKNOWN"
		}
		if effect.GetFinishedAt() != nil {
			state += " " + age(effect.GetFinishedAt().AsTime()) + " ago"
		}
		fmt.Fprintf(&b, "%s  %s, turn %s, id %s\n", printable(effect.GetToolName()), state, printable(effect.GetTurnId()), printable(effect.GetToolUseId()))
		switch undo := effect.GetUndo(); {
		case effect.GetUndone():
			fmt.Fprintf(&b, "  undone already, by %s under the id %s\n", printable(undo.GetToolName()), undo.GetToolUseId())
		case undo != nil:
			fmt.Fprintf(&b, "  sidecall call %s %s --id %s --conversation %s --turn %s\n",
				undo.GetToolName(), quoted(undo.GetArgumentsJson()), undo.GetToolUseId(), quoted(undo.GetConversationId()), quoted(undo.GetTurnId()))
		default:
			fmt.Fprintf(&b, "  cannot be undone by a call: %s\n", printableText(effect.GetNotUndoable()))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
