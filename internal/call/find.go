package call

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	defaultFound = 100
	// foundAtOnce is how many records a search has in memory at a time.
	foundAtOnce = 20
	// maxSearched bounds the records that are read for one page where few fit what is asked.
	maxSearched = 2_000
	// maxFoundBytes ends a page before it is more than clients receive.
	maxFoundBytes = 1 << 20
)

// Find lists the calls of a tenant that a request asks for, the latest claim first. Its errors
// are Faults, or that of ctx.
func (e Records) Find(ctx context.Context, tenant string, req *sidecallv1.FindExecutionsRequest) (*sidecallv1.FindExecutionsResponse, error) {
	size := cmp.Or(int(req.GetPageSize()), defaultFound)
	term, err := searched(tenant, req)
	switch {
	case err != nil:
		return nil, err
	case size < 1 || size > dedupe.MaxFound:
		return nil, fault(Invalid, "page_size: %d, must be 1 to %d, or 0 for %d", size, dedupe.MaxFound, defaultFound)
	}
	search := dedupe.Search{Tenant: tenant, Term: term, Conversation: req.GetConversationId(), From: req.GetPageToken()}
	if req.GetSince() != nil {
		search.Since = req.GetSince().AsTime()
	}
	f := finding{Records: e, req: req, fitting: result.Fitting{Most: maxFoundBytes}}
	for range maxSearched / foundAtOnce {
		search.Most = min(foundAtOnce, size-len(f.found))
		page, err := e.Dedupe.Find(ctx, search)
		if err != nil {
			return nil, notFound(ctx, err)
		}
		if err := f.take(ctx, page.Calls); err != nil {
			return nil, err
		}
		search.From = page.Next
		if page.Next == "" || len(f.found) == size || f.bytes > maxFoundBytes {
			break
		}
	}
	return f.page(ctx, search.From)
}

// searched is the term that a request is to be answered by.
func searched(tenant string, req *sidecallv1.FindExecutionsRequest) (dedupe.Term, error) {
	set := 0
	for _, by := range [...]string{req.GetKey(), req.GetLabel(), req.GetToolUseId()} {
		if by != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return dedupe.Term{}, fault(Invalid, "key, label, tool_use_id: calls are found by one of them; conversation_id, tool_name and since narrow that")
	case req.GetKey() == "" && req.GetValue() != "":
		return dedupe.Term{}, fault(Invalid, "value: needs key, the argument that has it")
	case req.GetLabel() == "" && req.GetLabelValue() != "":
		return dedupe.Term{}, fault(Invalid, "label_value: needs label, the label that has it")
	case req.GetKey() != "" && req.GetValue() == "":
		return dedupe.Term{}, fault(Invalid, "value: is required with key: an empty one is not indexed")
	case req.GetKey() != "":
		return dedupe.TermOf(tenant, byArgument, req.GetKey(), req.GetValue()), nil
	case req.GetLabel() != "":
		return dedupe.TermOf(tenant, byLabel, req.GetLabel(), req.GetLabelValue()), nil
	case req.GetToolUseId() != "" && req.GetConversationId() == "":
		return dedupe.TermOf(tenant, byID, "", req.GetToolUseId()), nil
	case req.GetConversationId() != "": // also of an id, which every conversation may have
		return ConversationTerm(tenant, req.GetConversationId()), nil
	}
	return dedupe.Term{}, fault(Invalid, "key: nothing is named that calls could be found by: set key and value, label and label_value, tool_use_id or conversation_id")
}

func notFound(ctx context.Context, err error) error {
	if errors.Is(err, dedupe.ErrInvalid) {
		return fault(Invalid, "page_token: it is none that this sidecar's store has given out; begin the search again")
	}
	return notLookedUp(ctx, err)
}

// finding is a page of a search in the making.
type finding struct {
	Records

	req     *sidecallv1.FindExecutionsRequest
	found   []*sidecallv1.FoundExecution
	fitting result.Fitting
	bytes   int
}

func (f *finding) take(ctx context.Context, calls []dedupe.Listed) error {
	for _, listed := range calls {
		if conversation := f.req.GetConversationId(); conversation != "" && conversation != listed.Key.Conversation {
			continue
		}
		if id := f.req.GetToolUseId(); id != "" && id != listed.Key.ID {
			continue
		}
		if name := f.req.GetToolName(); name != "" && name != listed.Record.Tool && listed.Record.State != dedupe.Absent {
			continue // of what is forgotten nobody knows the tool
		}
		found, err := f.describe(ctx, listed)
		if err != nil {
			return err
		}
		if res := found.GetExecution().GetResult(); res != nil {
			f.fitting.Add(len(f.found), listed.Key, res)
		}
		f.found = append(f.found, found)
		f.bytes += proto.Size(found)
	}
	return nil
}

func (f *finding) page(ctx context.Context, next string) (*sidecallv1.FindExecutionsResponse, error) {
	now, err := f.Dedupe.Now(ctx)
	if err != nil {
		return nil, storeDown(ctx)
	}
	res := &sidecallv1.FindExecutionsResponse{
		Executions: f.found, NextPageToken: next, RememberedSince: timestamppb.New(now.Add(-f.Dedupe.Retention())),
	}
	if f.req.GetPageToken() != "" {
		return res, nil
	}
	if keys := f.searchKeys(); f.req.GetKey() != "" && !slices.Contains(keys, f.req.GetKey()) {
		res.SearchKeys = keys
	}
	if names := f.Catalog.Snapshot().Names(); f.req.GetToolName() != "" && !slices.Contains(names, f.req.GetToolName()) {
		res.NearestTool = tool.Closest(f.req.GetToolName(), names)
	}
	return res, nil
}

// searchKeys are the arguments that some tool is searched by, sorted.
func (e Records) searchKeys() (keys []string) {
	snapshot := e.Catalog.Snapshot()
	for _, name := range snapshot.Names() {
		if route, ok := snapshot.Lookup(name); ok {
			keys = append(keys, route.Search.Names()...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// describe tells all that is known of a call that was found.
func (e Records) describe(ctx context.Context, listed dedupe.Listed) (*sidecallv1.FoundExecution, error) {
	key := listed.Key
	found := &sidecallv1.FoundExecution{Tenant: key.Tenant, ConversationId: key.Conversation, TurnId: key.Turn, ToolUseId: key.ID}
	if listed.Err != nil {
		found.Damage, found.Verdict = unreadable(listed).GetError(), sidecallv1.Verdict_VERDICT_UNKNOWN
		found.Explanation, found.Advice = "its record cannot be read", found.GetDamage().GetHint()
		return found, nil //nolint:nilerr // which is told as what is wrong with it
	}
	known, err := e.Dedupe.Told(ctx, key, dedupe.Known{Record: listed.Record})
	if err != nil {
		return nil, notLookedUp(ctx, err)
	}
	t := telling{Records: e, key: key, known: known}
	found.Verdict, found.Explanation, found.Advice = t.verdict()
	if replayed := e.replays.of(key); replayed.times > 0 {
		found.Replays, found.LastReplayedAt = replayed.times, timestamppb.New(replayed.last)
	}
	record := known.Record
	if record.State == dedupe.Absent {
		return found, nil
	}
	if found.Execution, err = e.execution(key, record); err != nil {
		return nil, err
	}
	found.Journaled, found.Fingerprint = known.Journaled, hex.EncodeToString(record.Fingerprint[:6])
	if record.Effect == tool.Keyed {
		found.IdempotencyKey = idempotencyKey(key)
	}
	found.Details = detailsOf(record)
	if route, ok := e.Catalog.Snapshot().Lookup(record.Tool); ok {
		found.VerifyWith, found.Verifiable = route.Tool.Policy.VerifyWith, route.Verification != nil
	}
	return found, nil
}

// telling answers "did it run?" of one call.
type telling struct {
	Records

	key   tool.CallID
	known dedupe.Known
}

// declared is the effect of the call's tool as it is now; of one that is gone, as it was.
func (t *telling) declared() tool.Effect {
	if route, ok := t.Catalog.Snapshot().Lookup(t.known.Record.Tool); ok {
		return route.Tool.Effect
	}
	return t.known.Record.Effect
}

// verdict says whether the call has run, why, and what to do.
func (t *telling) verdict() (verdict sidecallv1.Verdict, explanation, advice string) {
	record := t.known.Record
	switch fate := record.Fate(t.declared()); {
	case t.Dedupe.AtWork(t.key):
		return sidecallv1.Verdict_VERDICT_RUNNING, "this sidecar is running it right now", "Wait for its result: the same id sent again gets it."
	case record.State == dedupe.Absent:
		return sidecallv1.Verdict_VERDICT_FORGOTTEN,
			fmt.Sprintf("it was claimed, and its record is forgotten: records are kept for %s after their last change", tool.RoundTime(t.Dedupe.Retention())),
			"Look at the upstream before it is sent again: its id is a new one to Sidecall, and would run."
	case fate == dedupe.Running:
		return sidecallv1.Verdict_VERDICT_RUNNING,
			fmt.Sprintf("%s is running it, and its lease ends at %s", record.Owner, record.LeaseUntil.UTC().Format(time.RFC3339)),
			"Wait for its result: the same id sent again gets it."
	case fate == dedupe.Ran && t.denied() && record.MayHaveRun():
		return sidecallv1.Verdict_VERDICT_UNKNOWN, "an earlier attempt may have run, and another one was not allowed: " + t.ended(), t.find()
	case fate == dedupe.Ran && t.denied():
		return sidecallv1.Verdict_VERDICT_NOT_RUN, "nothing of it has had an effect: " + t.ended(), "It never runs under this id any more. What is still wanted needs a new id."
	case fate == dedupe.Ran:
		return sidecallv1.Verdict_VERDICT_RAN, t.ended(),
			"Sent again with the same ids it gets this result, and does not run. Under another id it would run again."
	case fate == dedupe.NeverRan && record.State == dedupe.Held:
		return sidecallv1.Verdict_VERDICT_HELD, t.waits(), t.allow()
	case record.State == dedupe.Held && fate == dedupe.Repeatable:
		return sidecallv1.Verdict_VERDICT_UNKNOWN, "an earlier attempt may have run, and before another one " + t.waits(), t.allow()
	case fate == dedupe.NeverRan:
		return sidecallv1.Verdict_VERDICT_NOT_RUN, "nothing of it has had an effect: " + t.ended(), t.withTool("It is safe to send again with the same ids: then it runs, or is refused.")
	case fate == dedupe.Repeatable && record.Effect == tool.ReadOnly && t.declared() == tool.ReadOnly:
		return sidecallv1.Verdict_VERDICT_NOT_RUN, "it has no effect, and may be tried again: " + t.ended(), "It is safe to send again, under any id."
	case fate == dedupe.Repeatable:
		return sidecallv1.Verdict_VERDICT_UNKNOWN, "it may have run, and its effect may be repeated: " + t.ended(),
			t.withTool("Send it again with the same ids: it is repeated safely. Under another id it would be another call.")
	case record.State == dedupe.Closed && !record.MayHaveRun():
		why := "its conversation has answered it before it ran"
		if record.Attempts > 0 {
			why = fmt.Sprintf("it was tried (%s), provably without an effect, and its conversation has that answer: %s", tool.Count(record.Attempts, "attempt"), t.ended())
		}
		return sidecallv1.Verdict_VERDICT_NOT_RUN, why, "It never runs under this id any more. What is still wanted needs a new id."
	}
	return sidecallv1.Verdict_VERDICT_UNKNOWN, "it may have run, and nobody knows: " + t.ended(), t.find()
}

// denied reports that a person has not allowed the call, whose record is done by that.
func (t *telling) denied() bool {
	recorded, err := result.Recorded(t.known.Record)
	return err == nil && recorded.GetResolution() != nil && recorded.GetError().GetCode() == string(tool.CodePermissionDenied)
}

// waits says what a held call waits for.
func (t *telling) waits() string {
	record, until := t.known.Record, t.known.Record.LeaseUntil.UTC().Format(time.RFC3339)
	if record.Approved() {
		return "a person has allowed it, until " + until + ", and it was not sent since"
	}
	return fmt.Sprintf("a person has to allow it first, until %s (%s)", until, askedOf(record).Why)
}

// allow says what is to be done about a held call.
func (t *telling) allow() string {
	route, ok := t.Catalog.Snapshot().Lookup(t.known.Record.Tool)
	switch {
	case t.known.Record.Approved():
		return t.withTool("Sent again with the same ids it runs, once, or is refused.")
	case ok && route.Approval == nil && route.Tool.Policy.ConfirmAfter == 0:
		return t.withTool("Its tool asks nobody any more: sent again with the same ids it runs, once, unless it is denied with sidecall approvals.")
	}
	return t.withTool("Allow or deny it with sidecall approvals; sent again with the same ids after that it runs, or is told who has denied it.")
}

// withTool is the advice about a call that runs when it is sent again, as long as its tool is there.
func (t *telling) withTool(advice string) string {
	if route, ok := t.Catalog.Snapshot().Lookup(t.known.Record.Tool); ok && route.Refused == "" {
		return advice
	}
	return advice + " Its tool cannot be called now: until it can be, what is sent again does not run."
}

// ended says how the call ended, as far as that is recorded.
func (t *telling) ended() string {
	record := t.known.Record
	recorded, err := result.Recorded(record)
	switch {
	case record.State == dedupe.Held: // of which nobody is asked any more
		return redeclared
	case err != nil && record.State == dedupe.Done:
		return "it has ended, and its result cannot be read"
	case err != nil:
		return unrecorded(record)
	case recorded.GetResolution() != nil && (recorded.GetError() == nil || record.State == dedupe.NotRun): // else the error says it
		return settledAs(recorded.GetResolution(), record.State)
	case recorded.GetError() != nil:
		return fmt.Sprintf("it ended in %s: %s", recorded.GetError().GetCode(), recorded.GetError().GetConstraint())
	}
	return "it ended in a result"
}

// settledAs says who has settled a call in a state, and why.
func settledAs(made *sidecallv1.Resolution, state dedupe.State) string {
	who := decider(made)
	if who == byVerification {
		who = "a verification"
	}
	return fmt.Sprintf("it was settled as %s by %s: %s", state, who, made.GetReason())
}

// find says how to find out what became of the call.
func (t *telling) find() string {
	how := "Look at the upstream whether it has happened"
	if route, ok := t.Catalog.Snapshot().Lookup(t.known.Record.Tool); ok {
		switch {
		case route.Verification != nil:
			how = "Ask the verification that its tool has (sidecall resolve --verify)"
		case route.Tool.Policy.VerifyWith != "":
			how = "Call " + route.Tool.Policy.VerifyWith + " to see whether it has happened"
		}
	}
	if s := t.known.Record.State; s == dedupe.NotRun || s == dedupe.Held { // its record has not heard yet of what its tool is now
		how += ", and send it again with its ids, which runs nothing"
	}
	return how + ", then settle it with sidecall resolve. It is not run again until then; do not send it under another id."
}
