package call

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxEffects is how many effects one answer tells of.
const maxEffects = 200

// undoPrefix begins the ids of calls that undo others.
const undoPrefix = "undo_"

// undoID is the id of the call that undoes another one: it follows from that, so that what is
// sent twice is undone once.
func undoID(key tool.CallID) string {
	sum := sha256.Sum256([]byte("undo " + idempotencyKey(key)))
	return undoPrefix + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// planUndo adds to the details of a call that has happened how it is undone, where its tool says so.
func (c *admitted) planUndo(kept *sidecallv1.CallDetails) {
	how, reading := c.route.Compensation, &c.tried.reading
	if how == nil || c.effect() == tool.ReadOnly || c.tried.sent == 0 || reading.Failure != nil || reading.Reply.InputRequired != nil {
		return
	}
	args, err := how.Args.After(reading, c.about())
	with, known := c.snapshot.Lookup(how.Tool)
	switch {
	case err != nil:
		kept.NotUndoable = "compensate_with." + tool.Shorten(c.route.Secrets.Replace(err.Error()), maxReason)
	case !c.snapshot.Limits.KeepArguments:
		kept.NotUndoable = "keep_arguments is none, so that the arguments of the call that undoes it are not kept"
	case len(args) > maxKeptArguments:
		kept.NotUndoable = fmt.Sprintf("the arguments of the call that undoes it have %d bytes, and %d are kept", len(args), maxKeptArguments)
	case !known:
		kept.NotUndoable = "there was no tool " + tool.Quote(how.Tool) + " when it ended"
	default:
		values, violation := with.Schema.ParseArgs(string(args))
		if violation != nil || with.Schema.HasSecret(values) || c.route.Secrets.Replace(string(args)) != string(args) {
			kept.NotUndoable = "what the call that undoes it needs is sensitive, and not kept"
			return
		}
		kept.Undo = &sidecallv1.PlannedCall{ToolName: how.Tool, ArgumentsJson: string(args)}
	}
}

// effectQuery asks for the effects of a conversation, or of a part of it.
type effectQuery struct {
	Records

	tenant, conversation string
	prompt, id           string // empty for all
	all                  bool   // prompts, and not the one without a name
	since                time.Time
	from                 string
}

// effects lists what has happened in a conversation, the latest first, and where the list goes on.
func (h *effectQuery) list(ctx context.Context) (effects []*sidecallv1.CommittedEffect, next string, err error) {
	search := dedupe.Search{Tenant: h.tenant, Term: ConversationTerm(h.tenant, h.conversation), Conversation: h.conversation, Since: h.since, From: h.from, Most: foundAtOnce}
	for range maxSearched / foundAtOnce {
		page, err := h.Dedupe.Find(ctx, search)
		if err != nil {
			return nil, "", notFound(ctx, err)
		}
		for _, listed := range page.Calls {
			effect, err := h.effect(ctx, listed)
			if err != nil {
				return nil, "", err
			}
			if effect != nil {
				effects = append(effects, effect)
			}
		}
		if search.From = page.Next; page.Next == "" || len(effects) > maxEffects-foundAtOnce {
			break
		}
	}
	return effects, search.From, nil
}

// effect tells of a call that has had an effect, or may have; nil of one that has not, or was not
// asked for.
func (h *effectQuery) effect(ctx context.Context, listed dedupe.Listed) (*sidecallv1.CommittedEffect, error) {
	key, record := listed.Key, listed.Record
	details := detailsOf(record)
	if h.id != "" && h.id != key.ID || !h.all && h.prompt != details.GetPromptId() || record.Effect == tool.ReadOnly || strings.HasPrefix(key.ID, undoPrefix) {
		return nil, nil
	}
	made := &sidecallv1.CommittedEffect{
		TurnId: key.Turn, ToolUseId: key.ID, PromptId: details.GetPromptId(), ToolName: record.Tool,
		Undo: details.GetUndo(), NotUndoable: details.GetNotUndoable(),
	}
	if !record.FinishedAt.IsZero() {
		made.FinishedAt = timestamppb.New(record.FinishedAt)
	}
	t := telling{Records: h.Records, key: key, known: dedupe.Known{Record: record}}
	if listed.Err != nil {
		made.Unknown, made.NotUndoable = true, "its record cannot be read"
		return made, nil //nolint:nilerr // which is told as why
	}
	switch verdict, why, _ := t.verdict(); {
	case verdict == sidecallv1.Verdict_VERDICT_RAN && unfinished(record):
		return nil, nil
	case verdict == sidecallv1.Verdict_VERDICT_RAN:
	case verdict == sidecallv1.Verdict_VERDICT_UNKNOWN, verdict == sidecallv1.Verdict_VERDICT_RUNNING:
		made.Unknown, made.Undo, made.NotUndoable = true, nil, why
		return made, nil
	default: // it has not run, or nothing is known of it any more
		return nil, nil
	}
	if made.GetUndo() == nil {
		if made.GetNotUndoable() == "" {
			made.NotUndoable = "its tool does not say how (compensate_with)"
		}
		return made, nil
	}
	made.Undo.ConversationId, made.Undo.TurnId, made.Undo.ToolUseId = key.Conversation, key.Turn, undoID(key)
	undo := key
	undo.ID = made.GetUndo().GetToolUseId()
	undone, err := h.Dedupe.Lookup(ctx, undo)
	if err != nil {
		return nil, notLookedUp(ctx, err)
	}
	made.Undone = undone.State == dedupe.Done && !unfinished(undone)
	return made, nil
}

// unfinished reports a call that is done and has committed nothing: it ended in an error which says that
// it had no effect, or asks for something before it goes on, in another round.
func unfinished(record dedupe.Record) bool {
	recorded, err := result.Recorded(record)
	if err != nil || !recorded.GetIsError() {
		return err == nil && recorded.GetInputRequiredJson() != ""
	}
	code := tool.Code(recorded.GetError().GetCode())
	return code != tool.CodeInvalidOutput && code != tool.CodeUnrecoverable
}

// PlanUndo lists what has happened in a conversation, with the calls that undo it. Its errors are
// Faults, or that of ctx.
func (e Records) PlanUndo(ctx context.Context, tenant string, req *sidecallv1.PlanUndoRequest) (*sidecallv1.PlanUndoResponse, error) {
	if req.GetConversationId() == "" {
		return nil, fault(Invalid, "conversation_id: is required: whose effects are to be undone?")
	}
	asked := effectQuery{
		Records: e, tenant: tenant, conversation: req.GetConversationId(), prompt: req.GetPromptId(), id: req.GetToolUseId(),
		all: req.GetPromptId() == "", from: req.GetPageToken(),
	}
	effects, next, err := asked.list(ctx)
	switch {
	case err != nil:
		return nil, err
	case req.GetToolUseId() != "" && len(effects) == 1 && effects[0].GetUnknown():
		return nil, fault(NotNow, "the call %s cannot be undone now: %s. Find out what became of it, and resolve it, first", tool.Quote(req.GetToolUseId()), effects[0].GetNotUndoable())
	case req.GetToolUseId() != "" && len(effects) == 0 && next == "":
		return nil, asked.nothing(ctx)
	case len(effects) == 0 && next == "" && req.GetPageToken() == "":
		return nil, asked.unlessKnown(ctx)
	}
	return &sidecallv1.PlanUndoResponse{Effects: effects, NextPageToken: next}, nil
}

// nothing says why a call that is named has no effect that could be undone.
func (h *effectQuery) nothing(ctx context.Context) error {
	found, err := h.Find(ctx, h.tenant, &sidecallv1.FindExecutionsRequest{ToolUseId: h.id, ConversationId: h.conversation})
	if err != nil {
		return err
	}
	for _, one := range found.GetExecutions() {
		return fault(NotNow, "the call %s has had no effect: %s", tool.Quote(h.id), one.GetExplanation())
	}
	return fault(NotFound, "tool_use_id: no call %s of the conversation %s is known", tool.Quote(h.id), tool.Quote(h.conversation))
}

// unlessKnown says that no call of the conversation is known; nil where there is one, none of
// which had an effect.
func (h *effectQuery) unlessKnown(ctx context.Context) error {
	page, err := h.Dedupe.Find(ctx, dedupe.Search{Tenant: h.tenant, Term: ConversationTerm(h.tenant, h.conversation), Conversation: h.conversation, Most: 1})
	switch {
	case err != nil:
		return notLookedUp(ctx, err)
	case len(page.Calls) == 0:
		return fault(NotFound, "conversation_id: no call of the conversation %s is known: it is of another tenant, or never was, or is forgotten", tool.Quote(h.conversation))
	}
	return nil
}
