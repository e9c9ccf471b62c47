package server

import (
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/timeline"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// toldEvent is an event as the contract has it.
func toldEvent(of *timeline.Timeline, e *timeline.Event) *sidecallv1.ConversationEvent {
	prompt := &of.Prompts[e.Prompt]
	told := &sidecallv1.ConversationEvent{
		Kind: kindOf(e.Kind), Prompt: int32(e.Prompt + 1), PromptId: carried(prompt.ID), Unappended: prompt.Unappended,
		Message: int64(e.Message), Text: carried(e.Text),
	}
	if e.Call != nil {
		told.Call = toldCall(e.Call)
	}
	return told
}

func kindOf(k timeline.Kind) sidecallv1.ConversationEventKind {
	switch k {
	case timeline.UserSaid:
		return sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_USER
	case timeline.ModelSaid:
		return sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_MODEL
	case timeline.Called:
		return sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_CALL
	case timeline.Unread:
		return sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_UNREADABLE
	}
	panic(fmt.Sprintf("an event of a kind that is none: %d", k))
}

func toldCall(c *timeline.Call) *sidecallv1.ConversationCall {
	told := &sidecallv1.ConversationCall{
		ToolUseId: carried(c.ID), TurnId: carried(c.Turn), ToolName: carried(c.Tool), ArgumentsJson: carried(c.Arguments), ArgumentsCut: c.Cut,
		Answered: c.Answered, Text: carried(c.Text), TextCut: c.TextCut,
	}
	switch {
	case c.Record == nil:
	case c.Record.State == dedupe.Absent:
		told.Record = sidecallv1.RecordKnown_RECORD_KNOWN_FORGOTTEN
	default:
		told.Record = sidecallv1.RecordKnown_RECORD_KNOWN_FOUND
		if told.Damage = c.Record.Damage; told.GetDamage() == "" {
			told.Execution, told.Resolution = result.Execution(c.Record.Record), c.Record.Resolution
		}
	}
	if c.Failure != nil {
		told.Error = toldError(c.Failure)
	}
	return told
}

func toldError(f *timeline.Failure) *sidecallv1.ConversationError {
	told := &sidecallv1.ConversationError{
		Code: string(f.Code), Fate: fateOf(f.Fate), Spun: f.Spun, Vague: f.Vague.Reasons(),
		NextText: carried(f.Next.Text), NextTool: carried(f.Next.Tool), NextAgain: f.Next.Again, NextNothing: f.Next.Nothing,
	}
	for _, one := range f.Next.Differences {
		told.NextDifferences = append(told.NextDifferences, carried(one))
	}
	return told
}

func fateOf(f timeline.Fate) sidecallv1.ErrorFate {
	switch f {
	case timeline.Recovered:
		return sidecallv1.ErrorFate_ERROR_FATE_RECOVERED
	case timeline.GaveUp:
		return sidecallv1.ErrorFate_ERROR_FATE_GAVE_UP
	case timeline.Open:
		return sidecallv1.ErrorFate_ERROR_FATE_OPEN
	}
	panic(fmt.Sprintf("a fate that is none: %d", f))
}

func toldCounts(c timeline.Counts) *sidecallv1.ErrorCounts {
	return &sidecallv1.ErrorCounts{
		Calls: int64(c.Calls), Errors: int64(c.Errors), Recovered: int64(c.Recovered), GaveUp: int64(c.GaveUp), Open: int64(c.Open), Spun: int64(c.Spun),
	}
}

// carried is a text that gRPC can carry.
func carried(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
