package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func newCall() *cobra.Command {
	var addr string
	var asJSON bool
	var timeout time.Duration
	req := &sidecallv1.ExecuteToolRequest{}
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON | @FILE | -]",
		Short: "Call a tool through a running sidecar",
		Long: `Call a tool through a running sidecar and print what the model would see. The
arguments are a JSON object, @ and the file that holds it, or - for stdin; none are
{}. With the same --id, --conversation and --turn the call is not made again: its first
result is printed. A --conversation that is not given is made up; with which flags
to ask for the result again is then printed on stderr. The exit code is 1 when the call failed.`,
		Example: `  sidecall call word_count '{"text":"one two three"}' --id toolu_01 --conversation c1
  sidecall call word_count @args.json`,
		Args: between(1, 2, "name the tool", "put the JSON into single quotes, or into a file (@FILE)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := unlessAsked(cmd.Context(), func() (any, error) { return nil, say(req, args, timeout, cmd.InOrStdin()) }); err != nil {
				return err
			}
			madeUp := identify(req)
			return withConnection(addr, func(client *sidecall.Client) error {
				res, err := client.Stub().ExecuteTool(cmd.Context(), req)
				if madeUp && worthAsking(req, res, err) {
					writeIdentity(cmd.ErrOrStderr(), req)
				}
				if err != nil {
					return rpcError(addr, lostCall, err)
				}
				if !asJSON && !req.GetValidateOnly() {
					writeRemarks(cmd.ErrOrStderr(), res)
				}
				if err := writeResult(cmd.OutOrStdout(), res, asJSON); err != nil {
					return err
				}
				if res.GetIsError() {
					return fail(exitFailed, nil)
				}
				return nil
			})
		},
	}
	addrFlag(cmd, &addr)
	flags := cmd.Flags()
	flags.StringVar(&req.ToolUseId, "id", "", "tool_use_id; a new one when absent")
	flags.StringVar(&req.ConversationId, "conversation", "", "conversation_id; a new one when absent")
	flags.StringVar(&req.TurnId, "turn", "", "turn_id")
	flags.StringVar(&req.PromptId, "prompt", "", "prompt_id, which budgets and loops are counted by; the conversation when absent")
	flags.StringVar(&req.Profile, "profile", "", "profile")
	flags.BoolVar(&req.AllowDuplicateEffect, "allow-duplicate-effect", false, "make the call although its effect has been had under another id, once somebody has decided so")
	flags.BoolVar(&req.ValidateOnly, "validate-only", false, "check the arguments, run nothing")
	flags.Int32Var(&req.MaxOutputChars, "max-output-chars", 0, "shorten the tool's own output limit")
	flags.DurationVar(&timeout, "timeout", 0, "shorten the tool's own deadline")
	flags.BoolVar(&asJSON, "json", false, "print the whole response as JSON")
	return cmd
}

// say puts what the command line says of a call into its request.
func say(req *sidecallv1.ExecuteToolRequest, args []string, timeout time.Duration, stdin io.Reader) (err error) {
	req.ToolName = args[0]
	if timeout < 0 {
		return fmt.Errorf("--timeout %s: must not be negative", timeout)
	}
	if timeout > 0 {
		req.Timeout = durationpb.New(timeout)
	}
	if len(args) > 1 {
		if req.ArgumentsJson, err = argumentsOf(args[1], stdin); err != nil {
			return fmt.Errorf("JSON: %w", err)
		}
	}
	return nil
}

// identify makes up what a call does not say of itself, and reports whether it
// said nothing of its conversation.
func identify(req *sidecallv1.ExecuteToolRequest) (madeUp bool) {
	if req.GetToolUseId() == "" {
		req.ToolUseId = "cli_" + uuid.NewString()
	}
	if req.GetConversationId() != "" {
		return false
	}
	req.ConversationId = "cli_" + uuid.NewString()
	return true
}

// worthAsking reports calls that have, or may have, a result to be asked for
// again.
func worthAsking(req *sidecallv1.ExecuteToolRequest, res *sidecallv1.ExecuteToolResponse, err error) bool {
	switch {
	case req.GetValidateOnly():
		return false
	case err != nil:
		return mayRun(status.Convert(err))
	case res.GetIsError():
		return res.GetRecovery().GetClass() == sidecallv1.RecoveryClass_RECOVERY_CLASS_UNKNOWN
	default:
		return res.GetRecorded()
	}
}

// writeIdentity prints with which flags the same call is asked for again.
func writeIdentity(errOut io.Writer, req *sidecallv1.ExecuteToolRequest) {
	fmt.Fprintf(errOut, "sidecall: the same call again: --id %s --conversation %s", word(req.GetToolUseId()), word(req.GetConversationId()))
	if turn := req.GetTurnId(); turn != "" {
		fmt.Fprintf(errOut, " --turn %s", word(turn))
	}
	fmt.Fprintln(errOut)
}

// writeRemarks prints what a person may want to know besides the content.
func writeRemarks(errOut io.Writer, res *sidecallv1.ExecuteToolResponse) {
	if res.GetReplayed() {
		fmt.Fprintln(errOut, "sidecall: replayed, nothing ran")
	}
	if !res.GetRecorded() && !res.GetIsError() {
		fmt.Fprintln(errOut, "sidecall: the result is not recorded; a resend may not find it")
	}
}

// writeResult prints content, as the model gets it, or the whole response.
func writeResult(out io.Writer, res *sidecallv1.ExecuteToolResponse, asJSON bool) error {
	if asJSON {
		return writeMessage(out, res)
	}
	_, err := fmt.Fprintln(out, res.GetContent())
	return err
}
