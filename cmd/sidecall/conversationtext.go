package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// conversationText prints a conversation for people.
type conversationText struct {
	out    io.Writer
	id     string
	tenant string
	prompt int32 // of the last event
	err    error
}

// page prints a page of a conversation, which begins with an event.
func (t *conversationText) page(res *sidecallv1.ShowConversationResponse, from int32) {
	var b bytes.Buffer
	if from == 0 {
		t.head(&b, res)
	}
	for i, e := range res.GetEvents() {
		if e.GetPrompt() != t.prompt {
			t.prompt = e.GetPrompt()
			beginPrompt(&b, e)
		}
		t.event(&b, e, from+int32(i) == res.GetFirstUnrecovered())
	}
	if res.GetNextEvent() == 0 && res.GetMoreCalls() {
		fmt.Fprintln(&b, "\nThere are more calls than are told here.")
	}
	if t.err == nil {
		_, t.err = t.out.Write(b.Bytes())
	}
}

// head says what there is of a conversation, and how it went.
func (t *conversationText) head(b *bytes.Buffer, res *sidecallv1.ShowConversationResponse) {
	kept := res.GetRecordsKept().AsDuration()
	if res.GetMessages() == 0 {
		paragraph(b, "", fmt.Sprintf("%s: calls only, by their records, which are kept for %s. No message is kept: texts and turns need AppendMessages.", printable(t.id), spoken(kept)))
	} else {
		paragraph(b, "", fmt.Sprintf("%s: %s (%s) from %s to %s. Records are kept for %s.", printable(t.id), tool.Count(int(res.GetMessages()), "message"),
			res.GetProvider(), instantOf(res.GetStartedAt().AsTime()), instantOf(res.GetUpdatedAt().AsTime()), spoken(kept)))
	}
	paragraph(b, "", sumOf(res.GetCounts())+".")
	if res.GetFirstUnrecovered() < 0 && res.GetCounts().GetErrors() > 0 {
		fmt.Fprintln(b, "Every error was recovered from.")
	}
}

// sumOf says how calls went.
func sumOf(c *sidecallv1.ErrorCounts) string {
	return fmt.Sprintf("%s, %s: %d recovered from, %d given up on, %d open; %d of them in a spin",
		tool.Count(int(c.GetCalls()), "call"), tool.Count(int(c.GetErrors()), "error"), c.GetRecovered(), c.GetGaveUp(), c.GetOpen(), c.GetSpun())
}

func instantOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// spoken is a duration in the words of the flags.
func spoken(d time.Duration) string { return (&ago{d}).String() }

func beginPrompt(b *bytes.Buffer, e *sidecallv1.ConversationEvent) {
	fmt.Fprintf(b, "\nprompt %d", e.GetPrompt())
	if e.GetPromptId() != "" {
		fmt.Fprintf(b, " (%s)", printable(e.GetPromptId()))
	}
	if e.GetUnappended() {
		b.WriteString(": calls that no message tells of")
	}
	b.WriteByte('\n')
}

func (t *conversationText) event(b *bytes.Buffer, e *sidecallv1.ConversationEvent, first bool) {
	switch e.GetKind() {
	case sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_USER:
		paragraph(b, "  user   ", e.GetText())
	case sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_MODEL:
		paragraph(b, "  model  ", e.GetText())
	case sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_CALL:
		if first {
			b.WriteString("\n" + firstMark + "\n")
		}
		writeConversationCall(b, e.GetCall(), first)
		if e.GetCall().GetExecution().GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
			c := e.GetCall()
			writeCommand(b, "    settle ", settleCommand(callFlags(t.tenant, t.id, c.GetTurnId(), c.GetToolUseId())))
		}
		if first {
			b.WriteString("<<\n\n")
		}
	default:
		paragraph(b, "  ?      ", e.GetText())
	}
}

// firstMark stands before the error that somebody looks for.
const firstMark = ">> THE FIRST ERROR THAT WAS NOT RECOVERED FROM"

func writeConversationCall(b *bytes.Buffer, c *sidecallv1.ConversationCall, first bool) {
	named := printable(c.GetToolName()) + " " + printable(c.GetToolUseId())
	if c.GetTurnId() != "" {
		named += " turn " + printable(c.GetTurnId())
	}
	paragraph(b, "  call   ", named+" ["+recordOf(c)+"]")
	if c.GetArgumentsJson() != "" {
		paragraph(b, "           ", c.GetArgumentsJson()+more(c.GetArgumentsCut()))
	}
	says := "    told   "
	if !c.GetAnswered() {
		says = "    record " // says it; the model was not told
	}
	switch e := c.GetError(); {
	case e != nil:
		paragraph(b, "    ERROR  ", fateOf(e))
		paragraph(b, says, c.GetText()+more(c.GetTextCut()))
		if first || e.GetFate() != sidecallv1.ErrorFate_ERROR_FATE_RECOVERED {
			for _, why := range e.GetVague() {
				paragraph(b, "    vague  ", why)
			}
		}
		paragraph(b, "    then   ", whatNext(c.GetToolName(), e))
	case c.GetText() != "" || c.GetAnswered():
		paragraph(b, says, c.GetText()+more(c.GetTextCut()))
	}
}

func more(cut bool) string {
	if cut {
		return " (and more)"
	}
	return ""
}

// recordOf says what is known of a call's record.
func recordOf(c *sidecallv1.ConversationCall) string {
	e := c.GetExecution()
	switch {
	case c.GetRecord() == sidecallv1.RecordKnown_RECORD_KNOWN_FORGOTTEN:
		return "its record is forgotten"
	case c.GetDamage() != "":
		return "its record cannot be read: " + c.GetDamage()
	case e == nil:
		return "no record"
	case e.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED && e.GetAttempts() == 0:
		return "CLOSED, it has not run and never will, " + instantOf(e.GetFinishedAt().AsTime())
	}
	says := strings.TrimPrefix(e.GetState().String(), "EXECUTION_STATE_")
	repeats := e.GetEffect() == sidecallv1.Effect_EFFECT_IDEMPOTENT || e.GetEffect() == sidecallv1.Effect_EFFECT_KEYED
	if e.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN && repeats && (e.GetAttempts() > 0 || e.GetEpoch() > 1) {
		says += ", but it may have run"
	}
	if made := c.GetResolution(); made != nil {
		says += ", settled " + instantOf(made.GetAt().AsTime()) + " by " + printableText(decider(made))
	}
	says += ", " + tool.Count(int(e.GetAttempts()), "attempt")
	if e.GetFinishedAt() != nil {
		says += ", " + tool.RoundTime(e.GetFinishedAt().AsTime().Sub(e.GetStartedAt().AsTime())).String()
	}
	if e.GetStartedAt() != nil {
		says += ", " + instantOf(e.GetStartedAt().AsTime())
	}
	return says
}

// codeOf is the code of an error, if it has one.
func codeOf(code string) string {
	if code == "" {
		return "without a code"
	}
	return shown(code)
}

// fateOf says what became of an error.
func fateOf(e *sidecallv1.ConversationError) string {
	says := codeOf(e.GetCode())
	switch e.GetFate() {
	case sidecallv1.ErrorFate_ERROR_FATE_RECOVERED:
		says += ", recovered from"
	case sidecallv1.ErrorFate_ERROR_FATE_GAVE_UP:
		says += ", given up on"
	default:
		says += ", not recovered from so far"
	}
	if e.GetSpun() {
		says += ", in a spin"
	}
	return says
}

// whatNext says what a model did after an error.
func whatNext(toolName string, e *sidecallv1.ConversationError) string {
	var did []string
	if e.GetNextText() != "" {
		did = append(did, "it said: "+e.GetNextText())
	}
	switch {
	case e.GetNextNothing():
		return "nothing more in this prompt"
	case e.GetNextAgain():
		did = append(did, "it made the same call again")
	case e.GetNextTool() == "":
	case e.GetNextTool() == toolName:
		did = append(did, "it called "+printable(toolName)+" with "+strings.Join(e.GetNextDifferences(), "; "))
	default:
		did = append(did, "it called "+printable(e.GetNextTool()))
	}
	return strings.Join(did, "\n")
}
