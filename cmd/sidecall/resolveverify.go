package main

import (
	"fmt"
	"strings"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// ask shows what the configured verification says and, when that is wanted,
// settles the call so.
func (r *resolving) ask() error {
	req := &sidecallv1.VerifyExecutionRequest{
		ConversationId: r.conversation, TurnId: r.turn, ToolUseId: r.id, ArgumentsJson: r.args, ResolvedBy: r.by, Settle: r.yes,
	}
	res, err := r.client.Operator().VerifyExecution(r.cmd.Context(), req)
	if err != nil {
		return r.failed(err)
	}
	decided := res.GetVerdict() == sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_DONE ||
		res.GetVerdict() == sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_NOT_RUN
	if err := r.showVerdict(res); err != nil {
		return err
	}
	switch {
	case !decided:
		return fail(exitFailed, nil)
	case r.asJSON:
		return nil
	case res.GetSettled():
		return r.settled(res.GetExecution())
	case !isTerminal(r.cmd.InOrStdin()):
		fmt.Fprintln(r.cmd.ErrOrStderr(), "sidecall: not settled; --yes settles it so")
		return nil
	}
	if err := r.confirm(fmt.Sprintf("Settle it as %s?", verdictName(res.GetVerdict()))); err != nil {
		return err
	}
	req.Settle = true
	if res, err = r.client.Operator().VerifyExecution(r.cmd.Context(), req); err != nil {
		return r.failed(err)
	}
	if !res.GetSettled() {
		return fail(exitFailed, fmt.Errorf("the verification says otherwise now: %s", printable(res.GetExplanation())))
	}
	return r.settled(res.GetExecution())
}

func (r *resolving) showVerdict(res *sidecallv1.VerifyExecutionResponse) error {
	if r.asJSON {
		return writeMessage(r.cmd.OutOrStdout(), res)
	}
	_, err := fmt.Fprintf(r.cmd.OutOrStdout(), "%s: %s\n", verdictName(res.GetVerdict()), res.GetExplanation())
	if content := res.GetResult().GetContent(); err == nil && content != "" && !res.GetSettled() {
		_, err = fmt.Fprintf(r.cmd.OutOrStdout(), "settled so, the result is:\n%s\n", content)
	}
	return err
}

func verdictName(v sidecallv1.VerificationVerdict) string {
	return strings.ToLower(strings.TrimPrefix(v.String(), "VERIFICATION_VERDICT_"))
}
