package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// resolving is a resolve command: what its flags say, and the sidecar.
type resolving struct {
	cmd    *cobra.Command
	client *sidecall.Client
	addr   string
	asJSON bool
	limit  int

	id, conversation, turn string
	as                     string
	reason, content, by    string
	isError, verify, yes   bool
	args                   string
}

func newResolve() *cobra.Command {
	r := &resolving{}
	cmd := &cobra.Command{
		Use:   "resolve [--id ID --as done|not_run --reason TEXT | --id ID --verify]",
		Short: "List the calls of which nobody knows whether they ran, and settle them",
		Long: `Without --id, list the calls whose outcome is unknown: the answer of the tool, or
the sidecar that ran the call, was lost in the middle. They stay so until they
are settled or forgotten, and are not run again.

With --id, settle one of them. Find out first, at the upstream, whether it has
happened.

  --as done      it has happened. Whoever sends the call again gets a result that
                 says so, with your reason and --content. This is final.
  --as not_run   it has not happened, and will not any more. Whoever sends the
                 call again runs it. If you are wrong, it happens twice.
  --verify       ask the verification that the tool's config has, show what it
                 says, and settle the call so with --yes.

You are asked before anything is settled; --yes answers for you, and is needed
where nobody can be asked. Who, why and when is logged by the sidecar, and kept
in the record: whoever gets the result sees it. Write no secrets.

Exit codes: 0 listed, settled, or the verification decides; 1 the call cannot be
settled, you said no, or the verification does not decide; 2 the command line is
wrong; 3 the sidecar or its store cannot be reached.`,
		Example: `  sidecall resolve
  sidecall resolve --id toolu_01 --conversation c1 --as done --reason "refund r-77 is in the ledger"
  sidecall resolve --id toolu_01 --conversation c1 --verify --args '{"order_id":"A-1","cents":500}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.cmd = cmd
			if err := r.check(); err != nil {
				return fail(exitUsage, err)
			}
			return withConnection(r.addr, func(client *sidecall.Client) error {
				r.client = client
				return r.run()
			})
		},
	}
	addrFlag(cmd, &r.addr)
	flags := cmd.Flags()
	flags.StringVar(&r.id, "id", "", "tool_use_id of the call to settle")
	flags.StringVar(&r.conversation, "conversation", "", "its conversation_id")
	flags.StringVar(&r.turn, "turn", "", "its turn_id")
	flags.StringVar(&r.as, "as", "", "what became of it: done or not_run")
	flags.StringVar(&r.reason, "reason", "", "how you know, at most 500 characters")
	flags.StringVar(&r.content, "content", "", "with --as done: what the model is told besides; @FILE reads a file")
	flags.BoolVar(&r.isError, "is-error", false, "with --as done: it ended in a definite error")
	flags.StringVar(&r.by, "by", os.Getenv("USER"), "who you are")
	flags.BoolVar(&r.verify, "verify", false, "ask the configured verification")
	flags.StringVar(&r.args, "args", "", "with --verify: the JSON arguments of the call, which are not stored; @FILE reads a file")
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask, settle")
	flags.IntVar(&r.limit, "limit", 0, "list at most so many; 0 lists all")
	flags.BoolVar(&r.asJSON, "json", false, "print JSON")
	return cmd
}

// check refuses flags that do not go together.
func (r *resolving) check() error {
	given := func(name string) bool { return r.cmd.Flags().Changed(name) }
	if r.id == "" {
		for _, name := range []string{"as", "verify", "reason", "content", "is-error", "args", "conversation", "turn"} {
			if given(name) {
				return fmt.Errorf("--%s needs --id: which call? `sidecall resolve` lists them", name)
			}
		}
		if r.limit < 0 {
			return errors.New("--limit: must not be negative")
		}
		return nil
	}
	switch {
	case r.as != "" && r.verify:
		return errors.New("--as and --verify exclude each other: say what became of the call, or ask")
	case r.as == "" && !r.verify:
		return errors.New("what became of the call? --as done or --as not_run, with --reason; or --verify to ask the configured verification")
	case !r.verify && r.as != "done" && r.as != "not_run":
		return fmt.Errorf("--as %q: want done or not_run", r.as)
	case !r.verify && strings.TrimSpace(r.reason) == "":
		return errors.New("--reason is required: say how you know, for whoever reads the record later")
	case r.as != "done" && (r.content != "" || r.isError):
		return errors.New("--content and --is-error go with --as done only")
	case r.verify && given("reason"):
		return errors.New("--reason goes with --as only: what the verification finds is the reason")
	case r.args != "" && !r.verify:
		return errors.New("--args goes with --verify only")
	case given("limit"):
		return errors.New("--limit goes with the list only")
	}
	var err error
	if r.content, err = textOrFile(r.content); err != nil {
		return fmt.Errorf("--content: %w", err)
	}
	if r.args, err = textOrFile(r.args); err != nil {
		return fmt.Errorf("--args: %w", err)
	}
	return nil
}

// maxFlagFile bounds a file that a flag names, in bytes: more is sent by nobody.
const maxFlagFile = 1 << 20

// textOrFile returns what a flag says: its text, or the file that it names.
func textOrFile(value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFlagFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if len(text) > maxFlagFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFlagFile)
	}
	return string(text), nil
}

func (r *resolving) run() error {
	switch {
	case r.id == "":
		return r.list()
	case r.verify:
		return r.ask()
	default:
		return r.settle()
	}
}

// settle settles one call as the command line says.
func (r *resolving) settle() error {
	looked, err := r.client.Service().GetExecution(r.cmd.Context(), &sidecallv1.GetExecutionRequest{
		ConversationId: r.conversation, TurnId: r.turn, ToolUseId: r.id,
	})
	if err != nil {
		return r.failed(err)
	}
	// What is not unknown may become so in the next moment, and then it would be
	// settled without a question to anybody.
	if looked.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
		return fail(exitFailed, r.notUnknown(looked))
	}
	r.describe(looked)
	if err := r.confirm(fmt.Sprintf("Settle it as %s?", r.as)); err != nil {
		return err
	}
	state := sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	if r.as == "not_run" {
		state = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	}
	res, err := r.client.Operator().ResolveExecution(r.cmd.Context(), &sidecallv1.ResolveExecutionRequest{
		ConversationId: r.conversation, TurnId: r.turn, ToolUseId: r.id,
		State: state, Reason: r.reason, Content: r.content, IsError: r.isError, ResolvedBy: r.by, Epoch: looked.GetEpoch(),
	})
	if err != nil {
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
	default:
		return fmt.Errorf("the call %s is in a state that this command does not know: %s", id, e.GetState())
	}
}

// describe shows the call that is about to be settled.
func (r *resolving) describe(e *sidecallv1.Execution) {
	fmt.Fprintf(r.cmd.ErrOrStderr(), "%s %s: unknown for %s, %d attempts, epoch %d\n",
		printable(e.GetToolName()), printable(r.id), age(e.GetFinishedAt().AsTime()), e.GetAttempts(), e.GetEpoch())
}

// settled says what a call is now, and what that means.
func (r *resolving) settled(e *sidecallv1.Execution) error {
	what := "done; whoever sends it again gets this result:\n" + e.GetResult().GetContent()
	if e.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		what = "not_run; whoever sends it again runs it"
	}
	_, err := fmt.Fprintf(r.cmd.OutOrStdout(), "%s is %s\n", printable(r.id), what)
	return err
}

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

// confirm asks the person at the terminal.
func (r *resolving) confirm(question string) error {
	if r.yes {
		return nil
	}
	in := r.cmd.InOrStdin()
	if !isTerminal(in) {
		return fail(exitUsage, errors.New("nothing was settled: there is nobody to ask; --yes settles without asking"))
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(exitUnavailable, err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return fail(exitUsage, errors.New("nothing was settled: nobody answered; --yes settles without asking"))
		}
	}
	return fail(exitFailed, errors.New("nothing was settled"))
}

// isTerminal reports whether somebody may be there to answer.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// failed makes a readable error of a gRPC status.
func (r *resolving) failed(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return fail(exitUnavailable, fmt.Errorf("the sidecar at %s is older than this command and cannot settle calls", r.addr))
	}
	return rpcError(r.addr, lostResolution, err)
}

// writeMessage prints a message as JSON.
func writeMessage(out io.Writer, m proto.Message) error {
	encoded, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fail(exitUnavailable, err)
	}
	_, err = fmt.Fprintln(out, string(encoded))
	return err
}

// age is how long ago an instant was, to two digits or so.
func age(at time.Time) string {
	d := max(0, time.Since(at))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
}

// printable shows an id, which somebody else has chosen, on a terminal: quoted
// when it is not plain, so that what is shown can be pasted.
func printable(id string) string {
	quoted := fmt.Sprintf("%q", id)
	if id == "" || strings.ContainsAny(id, " \t") || quoted != `"`+id+`"` {
		return quoted
	}
	return id
}
