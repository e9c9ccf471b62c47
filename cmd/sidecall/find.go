package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const findHelp = `Answer "did it run?" of the calls that have an argument, a label, an id, or a
conversation, the latest first. Nothing is changed, and nothing is asked of the tool.

  RAN         it has a final result, which may be an error
  RUNNING     a sidecar is at it
  NOT RUN     nothing has had an effect under its id
  HELD        nothing of it has run: a person has to allow it first (sidecall approvals)
  UNKNOWN     it may have run: sidecall resolve settles it
  FORGOTTEN   it was claimed, and its record is over its retention
  NEVER SEEN  no call was claimed that has this. One that was refused before, for
              its arguments, a budget, an open breaker, leaves no record, nor
              does one of a profile with mode: observe

The arguments that calls are found by are those that search_keys of their tools name in
the config; without it those that recovery.target takes. Of each call the evidence is
shown: its attempts, what was sent and what the model was told, what the upstream calls
it, the key that its upstream gets, and whether it is safe to send again.

The sidecar is asked at its operator socket, as by sidecall resolve.

Exit codes: 0 each call that was found RAN, or was NOT RUN; 1 none was found (NEVER
SEEN); 2 the command line is wrong; 3 the sidecar or its store cannot be reached; 4 of
a call nobody knows (UNKNOWN, FORGOTTEN); 5 a call is HELD or RUNNING, and none is 4.`

// searching is a find command.
type searching struct {
	operating

	label string
	since ago
	limit int
	req   sidecallv1.FindExecutionsRequest
}

func newFind() *cobra.Command {
	s := &searching{operating: operating{lost: lostList}}
	cmd := &cobra.Command{
		Use:   "find [KEY=VALUE]",
		Short: "Did it run? Find calls by an argument, a label, an id or a conversation",
		Long:  findHelp,
		Example: `  sidecall find order_id=A-77
  sidecall find order_id=A-77 --tool refund --since 24h
  sidecall find --id toolu_01
  sidecall find --label user=u-9 --json`,
		Args: between(0, 1, "", "a call is found by one argument, KEY=VALUE; --tool, --conversation and --since narrow that"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(args, time.Now()); err != nil {
				return fail(exitUsage, err)
			}
			return s.run(cmd, s.find)
		},
	}
	s.flags(cmd, "whose calls")
	flags := cmd.Flags()
	flags.StringVar(&s.req.ToolUseId, "id", "", "tool_use_id of the call, in whatever turn")
	flags.StringVar(&s.req.ConversationId, "conversation", "", "its conversation_id")
	flags.StringVar(&s.label, "label", "", "a label that was sent with it, NAME=VALUE")
	flags.StringVar(&s.req.ToolName, "tool", "", "calls of this tool only")
	flags.Var(&s.since, "since", "calls that were claimed in this time, such as 90m, 24h or 7d")
	flags.IntVar(&s.limit, "limit", 20, "show at most so many; 0 shows all")
	return cmd
}

// check makes the request of the command line.
func (s *searching) check(args []string, now time.Time) (err error) {
	var ok bool
	if len(args) == 1 {
		if s.req.Key, s.req.Value, ok = strings.Cut(args[0], "="); !ok || s.req.GetKey() == "" || s.req.GetValue() == "" {
			return fmt.Errorf("%q: want KEY=VALUE, such as order_id=A-77", args[0])
		}
	}
	if s.label != "" {
		if s.req.Label, s.req.LabelValue, ok = strings.Cut(s.label, "="); !ok || s.req.GetLabel() == "" {
			return fmt.Errorf("--label %q: want NAME=VALUE", s.label)
		}
	}
	if s.since.Duration > 0 {
		s.req.Since = timestamppb.New(now.Add(-s.since.Duration))
	}
	switch {
	case s.limit < 0:
		return errors.New("--limit: must not be negative")
	case s.req.GetKey() == "" && s.req.GetLabel() == "" && s.req.GetToolUseId() == "" && s.req.GetConversationId() == "":
		return errors.New("which call? KEY=VALUE names an argument of it; or --id, --label, --conversation")
	}
	return nil
}

// find prints what is found.
func (s *searching) find() error {
	found, code, left := 0, 0, false
	var last *sidecallv1.FindExecutionsResponse
	_, _, err := printList(&s.operating, (&foundText{out: s.cmd.OutOrStdout()}).write, 0, func(token string) ([]*sidecallv1.FoundExecution, string, error) {
		if s.req.PageToken, s.req.PageSize = token, 100; s.limit > 0 {
			s.req.PageSize = int32(min(100, s.limit-found))
		}
		res, err := s.client.Operator().FindExecutions(s.cmd.Context(), &s.req)
		if err != nil {
			return nil, "", err
		}
		for _, call := range res.GetExecutions() {
			found++
			code = worse(code, call.GetVerdict())
		}
		last, token = res, res.GetNextPageToken()
		if left = token != "" && s.limit > 0 && found >= s.limit; left {
			token = ""
		}
		return res.GetExecutions(), token, nil
	})
	if err == nil && found == 0 {
		code, err = exitFailed, s.never(last)
	}
	if err != nil {
		return err
	}
	if left {
		fmt.Fprintf(s.cmd.ErrOrStderr(), "sidecall: the latest %d are shown, and there may be more: --limit 0 shows all\n", found)
	}
	if code != 0 {
		return fail(code, nil)
	}
	return nil
}

// worse is the exit code of a search that has found one call more.
func worse(code int, v sidecallv1.Verdict) int {
	switch v {
	case sidecallv1.Verdict_VERDICT_RAN, sidecallv1.Verdict_VERDICT_NOT_RUN:
		return code
	case sidecallv1.Verdict_VERDICT_HELD, sidecallv1.Verdict_VERDICT_RUNNING:
		return cmp.Or(code, exitUndecided)
	}
	return exitUnknown // and what this command does not know
}
