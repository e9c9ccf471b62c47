package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

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
func never(out io.Writer, req *sidecallv1.FindExecutionsRequest, res *sidecallv1.FindExecutionsResponse) {
	fmt.Fprintf(out, "NEVER SEEN: no call was claimed with this since %s; what ended before is forgotten. A call that was refused before it was claimed leaves no record.\n",
		res.GetRememberedSince().AsTime().Format(time.RFC3339))
	if keys := res.GetSearchKeys(); len(keys) > 0 {
		fmt.Fprintf(out, "sidecall: no tool is searched by %s as the config is now; there are: %s (search_keys)\n", printable(req.GetKey()), strings.Join(keys, ", "))
	}
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
		if _, err := io.WriteString(t.out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

func (t *foundText) end() error { return nil }

// call writes one call: the verdict first, then what it rests on.
func (t *foundText) call(b *strings.Builder, call *sidecallv1.FoundExecution) {
	e, details := call.GetExecution(), call.GetDetails()
	fmt.Fprintf(b, "%s  %s", cmp.Or(verdicts[call.GetVerdict()], call.GetVerdict().String()), printable(cmp.Or(e.GetToolName(), "(tool unknown)")))
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
		line("key", "%s, forwarded to the upstream", key)
	}
	if id := details.GetUpstreamId(); id != "" {
		line("upstream", "%s is what it calls the request", printable(id))
	}
	if res := e.GetResult(); res != nil {
		line("model", "was told:")
		for text := range strings.Lines(strings.TrimRight(res.GetContent(), "\n")) {
			fmt.Fprintf(b, "    | %s\n", strings.TrimRight(text, "\n"))
		}
	}
	if call.GetReplays() > 0 {
		line("replays", "%d by this sidecar since it started, the last %s ago", call.GetReplays(), age(call.GetLastReplayedAt().AsTime()))
	}
	if call.GetJournaled() {
		line("journal", "its end waits in this sidecar's journal, until the store takes it")
	}
	line("again", "%s", call.GetAdvice())
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
