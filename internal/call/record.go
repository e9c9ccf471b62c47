package call

import (
	"context"
	"encoding/hex"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Execution returns the record of a call with its result: did it run? Its errors
// are Faults, or that of ctx.
func (e Records) Execution(ctx context.Context, key tool.CallID) (*sidecallv1.Execution, error) {
	record, err := e.Dedupe.Lookup(ctx, key)
	if err != nil {
		return nil, notLookedUp(ctx, err)
	}
	if record.State == dedupe.Absent {
		return nil, e.neverStarted(ctx, key)
	}
	return e.execution(key, record)
}

// execution is a record with its result.
func (e Records) execution(key tool.CallID, record dedupe.Record) (*sidecallv1.Execution, error) {
	told := e.told(record)
	execution := result.Execution(told)
	execution.Approval = approvalOf(record)
	if told.State == dedupe.Held {
		execution.Result = e.heldResult(key, record)
	} else if len(record.Result) > 0 {
		execution.Result = &response{}
		if err := proto.Unmarshal(record.Result, execution.GetResult()); err != nil {
			return nil, fault(Unreadable, "the recorded result cannot be read: %v", err)
		}
		execution.FinishedAt = result.Instant(result.Ended(told, execution.GetResult()))
		result.Fit(key, execution.GetResult())
	}
	return execution, nil
}

// heldResult is what who sends a held call is told.
func (e Records) heldResult(key tool.CallID, record dedupe.Record) *response {
	c := newCall(e.Catalog.Snapshot(), Request{Use: tool.Use{Key: key, Tool: record.Tool}})
	defer c.leave()
	return rendered(recordedAs(c, dedupe.Known{Record: record}).held())
}

// told is a record as it is told: of a tool that must not be repeated any more, attempts
// that may have had its effect are of unknown outcome, as they are for who sends the call.
func (e Records) told(record dedupe.Record) dedupe.Record {
	if route, ok := e.Catalog.Snapshot().Lookup(record.Tool); ok && record.Fate(route.Tool.Effect) == dedupe.MayHaveRun {
		record.State = dedupe.Unknown
	}
	return record
}

// Unknown describes a call of a listing of unknown ones; nil for one that waits for something else.
func (e Records) Unknown(listed dedupe.Listed) *sidecallv1.UnknownExecution {
	if listed.Err != nil {
		return unreadable(listed)
	}
	if listed.Record.State != dedupe.Unknown {
		return nil
	}
	described := &sidecallv1.UnknownExecution{
		Tenant: listed.Key.Tenant, ConversationId: listed.Key.Conversation, TurnId: listed.Key.Turn, ToolUseId: listed.Key.ID,
		Execution: result.Execution(listed.Record), Fingerprint: hex.EncodeToString(listed.Record.Fingerprint[:6]), // enough to tell two calls apart
	}
	if route, ok := e.Catalog.Snapshot().Lookup(listed.Record.Tool); ok {
		described.VerifyWith = route.Tool.Policy.VerifyWith
		described.Verifiable = route.Verification != nil
	}
	if recorded, err := result.Recorded(listed.Record); err == nil {
		described.Error = recorded.GetError()
	}
	return described
}

// unreadable describes a call of which the record cannot be read: it is unknown
// too, and its error says what is wrong with the record, and which it is.
func unreadable(listed dedupe.Listed) *sidecallv1.UnknownExecution {
	e := tool.Error{
		Code: tool.CodeOutcomeUnknown, Constraint: explain.CorruptRecord, Received: output.Clean([]byte(listed.Err.Error())),
		Hint: "Find out by other means whether the call has happened. It is not run again while the record is there; whoever removes it makes the id a new one.",
	}
	if errors.Is(listed.Err, dedupe.ErrLayout) {
		e.Code, e.Constraint, e.Hint = tool.CodeStoreUnavailable, explain.OtherLayout, "Ask a sidecar of the version that has written it."
	}
	return &sidecallv1.UnknownExecution{
		Tenant: listed.Key.Tenant, ConversationId: listed.Key.Conversation, TurnId: listed.Key.Turn, ToolUseId: listed.Key.ID,
		Execution: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN},
		Error:     result.Error(e),
	}
}

// maxOtherTurns is how many calls of a conversation, the latest, are looked through for an id.
const maxOtherTurns = 200

// neverStarted says that there is no record of a call; where one of its conversation has the id in
// another turn, it names that.
func (e Records) neverStarted(ctx context.Context, key tool.CallID) error {
	search := dedupe.Search{Tenant: key.Tenant, Term: ConversationTerm(key.Tenant, key.Conversation), Conversation: key.Conversation, Most: foundAtOnce}
	if key.Conversation == "" {
		search.Term = dedupe.TermOf(key.Tenant, byID, "", key.ID)
	}
	for range maxOtherTurns / foundAtOnce {
		page, err := e.Dedupe.Find(ctx, search)
		if err != nil {
			return notLookedUp(ctx, err)
		}
		for _, other := range page.Calls {
			if other.Key.ID == key.ID && other.Key.Conversation == key.Conversation && other.Record.State != dedupe.Absent {
				return fault(NotFound, "no record of tool_use_id %s with turn_id %s; there is one with turn_id %s, which is %s: send that turn_id",
					tool.Quote(key.ID), tool.Quote(key.Turn), tool.Quote(other.Key.Turn), other.Record.State)
			}
		}
		if search.From = page.Next; page.Next == "" {
			break
		}
	}
	return neverStarted(key)
}

func neverStarted(key tool.CallID) error {
	return fault(NotFound, "no record of tool_use_id %s with this conversation_id and turn_id: it was never started here, or its retention is over", tool.Quote(key.ID))
}

// notLookedUp says why a record could not be looked at.
func notLookedUp(ctx context.Context, err error) error {
	switch {
	case dedupe.IsCorrupt(err):
		return fault(Unreadable, "%v; find out by other means whether the call has happened. "+
			"It is not run again while the record is there; whoever removes it makes the id a new one", err)
	case errors.Is(err, dedupe.ErrLayout):
		return fault(StoreDown, "%v; nothing was changed, ask a sidecar of the version that has written it", err)
	}
	return storeDown(ctx)
}

// storeDown is for requests that are nothing but a look into the store.
func storeDown(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault(StoreDown, "the store is down; nothing was changed, send the request again later")
}
