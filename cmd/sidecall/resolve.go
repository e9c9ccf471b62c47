package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

const resolveHelp = `Without --id, list the calls whose outcome is unknown: the answer of the tool, or
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

What the model will be told is shown, your reason with it, and you are asked before
anything is settled; --yes answers for you, and is needed where nobody can be asked.
Neither can be taken back, and the model learns of it when its program sends the same
id again. Who, why and when is logged by the sidecar, and kept in the record: write no
secrets. Who you are the operating system says; --by is kept beside that, and told too.

The sidecar is asked at its operator socket (operator in its config, mode 0600),
not where agents connect: --addr unix:///path, or --config FILE, or the environment
variable SIDECALL_OPERATOR, or ./sidecall.yaml, in this order.

Exit codes: 0 listed, settled, or the verification decides; 1 the call cannot be
settled, you said no, or the verification does not decide; 2 the command line is
wrong; 3 the sidecar or its store cannot be reached.`

func newResolve() *cobra.Command {
	r := &resolving{operating: operating{lost: lostResolution}}
	cmd := &cobra.Command{
		Use:   "resolve [--id ID --as done|not_run --reason TEXT | --id ID --verify]",
		Short: "List the calls of which nobody knows whether they ran, and settle them",
		Long:  resolveHelp,
		Example: `  sidecall resolve
  sidecall resolve --id toolu_01 --conversation c1 --as done --reason "refund r-77 is in the ledger"
  sidecall resolve --id toolu_01 --conversation c1 --verify --args '{"order_id":"A-1","cents":500}'`,
		Args: between(0, 0, "", "a call is named by --id, --conversation and --turn, a config file by --config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.cmd = cmd
			if _, err := unlessAsked(cmd.Context(), func() (any, error) { return nil, r.check() }); err != nil {
				return err
			}
			return r.operating.run(cmd, r.run)
		},
	}
	r.operating.flags(cmd, "whose call it is, or whose calls to list")
	flags := cmd.Flags()
	flags.StringVar(&r.id, "id", "", "tool_use_id of the call to settle")
	flags.StringVar(&r.conversation, "conversation", "", "its conversation_id")
	flags.StringVar(&r.turn, "turn", "", "its turn_id")
	flags.StringVar(&r.as, "as", "", "what became of it: done or not_run")
	flags.StringVar(&r.reason, "reason", "", "how you know, at most 500 characters; with --as done the model is told")
	flags.StringVar(&r.content, "content", "", "with --as done: what the model is told besides; @FILE reads a file")
	flags.BoolVar(&r.isError, "is-error", false, "with --as done: it ended in a definite error")
	flags.StringVar(&r.by, "by", os.Getenv("USER"), "what to call you, beside the user that the system says you are")
	flags.BoolVar(&r.verify, "verify", false, "ask the configured verification")
	flags.StringVar(&r.args, "args", "", "with --verify: the JSON arguments of the call, where its record has not all of them; @FILE reads a file")
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask, settle")
	flags.IntVar(&r.limit, "limit", 0, "list at most so many; 0 lists all")
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
		return fmt.Errorf("--as %q: want done or not_run, what became of the call; your name goes into --by", r.as)
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
