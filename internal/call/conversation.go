package call

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/timeline"
)

// maxConversationCalls bounds the calls of a conversation that are found by their records.
const maxConversationCalls = 10 * dedupe.MaxFound

// recordsAtOnce is how many records, with their results, are in memory at a time.
const recordsAtOnce = 100

// CallsOf returns what is recorded of the calls of a conversation, the latest of them where
// there are more than maxConversationCalls. Its errors are Faults, or that of ctx.
func (e Records) CallsOf(ctx context.Context, tenant, conversation string) (all []timeline.Record, more bool, err error) {
	search := dedupe.Search{Tenant: tenant, Term: ConversationTerm(tenant, conversation), Conversation: conversation, Most: recordsAtOnce}
	for {
		page, err := e.Dedupe.Find(ctx, search)
		if err != nil {
			return nil, false, notLookedUp(ctx, err)
		}
		for _, listed := range page.Calls {
			record, err := e.recordOf(ctx, listed)
			if err != nil {
				return nil, false, notLookedUp(ctx, err)
			}
			all = append(all, record)
		}
		if search.From = page.Next; page.Next == "" || len(all) >= maxConversationCalls {
			return all, page.Next != "", nil
		}
	}
}

// recordOf is what a timeline is told of a call: what this process knows of it.
func (e Records) recordOf(ctx context.Context, listed dedupe.Listed) (timeline.Record, error) {
	r := timeline.Record{ID: listed.Key.ID, Turn: listed.Key.Turn}
	if listed.Err != nil {
		r.State, r.Damage = dedupe.Unknown, output.Clean([]byte(listed.Err.Error()))
		return r, nil //nolint:nilerr // it is told
	}
	known, err := e.Dedupe.Told(ctx, listed.Key, dedupe.Known{Record: listed.Record})
	if err != nil {
		return r, err
	}
	r.Record = e.told(known.Record)
	details := detailsOf(r.Record)
	r.Prompt, r.Arguments, r.Cut, r.ToldBefore = details.GetPromptId(), details.GetArgumentsJson(), details.GetArgumentsCut(), details.GetToldBefore()
	// What a closed call is answered is for who sends it late: the model was told otherwise.
	if told, err := result.Recorded(r.Record); err == nil && r.State != dedupe.Closed {
		r.Text, r.IsError = provider.Text(told), told.GetIsError()
		r.Resolution, r.FinishedAt = told.GetResolution(), result.Ended(r.Record, told)
	}
	r.Result, r.Details = nil, nil
	return r, nil
}

// Redacted is args of a tool without what is never shown; of a tool that there is no more
// without any value.
func (e Records) Redacted(toolName string, args map[string]any) map[string]any {
	var known *schema.Schema
	if route, ok := e.Catalog.Snapshot().Lookup(toolName); ok {
		known = route.Schema
	}
	return known.Redacted(args)
}
