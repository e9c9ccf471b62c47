package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// verdicts are the answers to "did it run?", as a person reads them.
var verdicts = map[sidecallv1.Verdict]string{
	sidecallv1.Verdict_VERDICT_RAN:       "RAN",
	sidecallv1.Verdict_VERDICT_RUNNING:   "RUNNING",
	sidecallv1.Verdict_VERDICT_NOT_RUN:   "NOT RUN",
	sidecallv1.Verdict_VERDICT_UNKNOWN:   "UNKNOWN",
	sidecallv1.Verdict_VERDICT_FORGOTTEN: "FORGOTTEN",
	sidecallv1.Verdict_VERDICT_HELD:      "HELD",
}

// never says that nothing was found, and what that means.
func (s *searching) never(res *sidecallv1.FindExecutionsResponse) error {
	out, errOut := s.cmd.OutOrStdout(), s.cmd.ErrOrStderr()
	if s.asJSON { // whose answer is an empty list
		out = errOut
	}
	since, before := res.GetRememberedSince().AsTime(), "ended before (%s ago) is forgotten"
	if asked := s.req.GetSince(); asked != nil && asked.AsTime().After(since) {
		since, before = asked.AsTime(), "was claimed before (%s ago) was not looked at (--since)"
	}
	_, err := fmt.Fprintf(out, "NEVER SEEN: no call was claimed with this since %s. What "+before+", and a call that was refused before it was claimed, or only observed, leaves no record.\n",
		since.Format(time.RFC3339), age(since))
	if keys := res.GetSearchKeys(); len(keys) > 0 {
		fmt.Fprintf(errOut, "sidecall: no tool is searched by %s as the config is now; there are: %s (search_keys)\n", printable(s.req.GetKey()), strings.Join(keys, ", "))
	}
	if meant := res.GetNearestTool(); meant != "" {
		fmt.Fprintf(errOut, "sidecall: there is no tool %s as the config is now: did you mean --tool %s?\n", printable(s.req.GetToolName()), printable(meant))
	}
	return err
}

// foundText is for people: a paragraph for each call.
type foundText struct {
	out  io.Writer
	some bool
}

func (t *foundText) write(calls []*sidecallv1.FoundExecution) error {
	for _, call := range calls {
		var b strings.Builder
		if t.some {
			b.WriteByte('\n')
		}
		t.some = true
		t.call(&b, call)
		if _, err := io.WriteString(t.out, shown(b.String())); err != nil {
			return err
		}
	}
	return nil
}

// call writes one call: the verdict first, then what it rests on.
func (t *foundText) call(b *strings.Builder, call *sidecallv1.FoundExecution) {
	e, details := call.GetExecution(), call.GetDetails()
	fmt.Fprintf(b, "%s  %s", cmp.Or(verdicts[call.GetVerdict()], call.GetVerdict().String()), toolOf(e))
	if e.GetStartedAt() != nil {
		fmt.Fprintf(b, ", %s ago", age(e.GetStartedAt().AsTime()))
	}
	fmt.Fprintf(b, "\n  %s\n", sentence(call.GetExplanation()))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("call", "conversation %s, turn %s, id %s", printable(call.GetConversationId()), printable(call.GetTurnId()), printable(call.GetToolUseId()))
	if call.GetTenant() != "" {
		line("tenant", "%s", printable(call.GetTenant()))
	}
	if details.GetPromptId() != "" {
		line("prompt", "%s", printable(details.GetPromptId()))
	}
	if e != nil {
		line("times", "%s", times(e))
		line("attempts", "%d, claim %d by %s", e.GetAttempts(), e.GetEpoch(), printable(e.GetOwner()))
	}
	if args := details.GetArgumentsJson(); args != "" {
		line("sent", "%s%s", args, map[bool]string{true: " (cut)"}[details.GetArgumentsCut()])
	}
	if key := call.GetIdempotencyKey(); key != "" {
		line("key", "%s", key)
	}
	if id := details.GetUpstreamId(); id != "" {
		line("upstream", "%s is what it calls the request", printable(id))
	}
	if who := e.GetApproval(); who != nil {
		line("allowed", "%s", decision(who))
	}
	if who := e.GetResult().GetResolution(); who != nil {
		line("settled", "%s", decision(who))
	}
	t.told(b, line, call)
	if call.GetReplays() > 0 {
		line("replays", "%d by this sidecar since it started, the last %s ago", call.GetReplays(), age(call.GetLastReplayedAt().AsTime()))
	}
	if call.GetJournaled() {
		line("journal", "its end waits in this sidecar's journal, until the store takes it")
	}
	line("again", "%s", call.GetAdvice())
	flags := callFlags(call.GetTenant(), call.GetConversationId(), call.GetTurnId(), call.GetToolUseId())
	switch {
	case call.GetVerdict() == sidecallv1.Verdict_VERDICT_HELD && e.GetApproval() == nil:
		line("decide", "sidecall approvals approve|deny %s --as YOU --reason TEXT", strings.Join(flags, " "))
	case e.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN:
		if call.GetVerifiable() {
			line("verify", "%s", strings.Join(verifyCommand(flags), " "))
		}
		line("settle", "%s", strings.Join(settleCommand(flags), " "))
	}
}

// toolOf is the tool of a call, of whose record that is known.
func toolOf(e *sidecallv1.Execution) string {
	if e.GetToolName() == "" {
		return "(tool unknown)"
	}
	return printable(e.GetToolName())
}

// told writes what the model was told, and what whoever sends the call again is, where that is
// another thing: it was settled, or is held.
func (t *foundText) told(b *strings.Builder, line func(name, format string, args ...any), call *sidecallv1.FoundExecution) {
	res := call.GetExecution().GetResult()
	// What has not run keeps the words of then: it is answered by what comes of it.
	settled := res.GetResolution() != nil && call.GetExecution().GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	if before := call.GetDetails().GetToldBefore(); before != "" && settled {
		line("model", "was told, before it was settled:")
		quote(b, before)
	}
	switch {
	case res == nil, res.GetHold().GetApproved(): // which runs
		return
	case settled, call.GetVerdict() == sidecallv1.Verdict_VERDICT_HELD:
		line("sent again", "it is told:")
	default:
		line("model", "was told:")
	}
	quote(b, provider.Text(res))
}

// quote writes a text as it is, with a mark before each line.
func quote(out io.Writer, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintln(out, strings.TrimRight("    | "+line, " "))
	}
}

// decision is who has decided about a call, when, and why.
func decision(by *sidecallv1.Resolution) string {
	return fmt.Sprintf("%s by %s: %s", by.GetAt().AsTime().Format(time.RFC3339), decider(by), by.GetReason())
}

// times are the instants of a record.
func times(e *sidecallv1.Execution) string {
	started := e.GetStartedAt().AsTime()
	if e.GetFinishedAt() == nil {
		return fmt.Sprintf("claimed %s, lease until %s", started.Format(time.RFC3339), e.GetLeaseUntil().AsTime().Format(time.RFC3339))
	}
	ended := e.GetFinishedAt().AsTime()
	return fmt.Sprintf("claimed %s, ended %s, %s later", started.Format(time.RFC3339), ended.Format(time.RFC3339), tool.RoundTime(ended.Sub(started)))
}

// sentence is a text that begins as a sentence does.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
