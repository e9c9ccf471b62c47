package histories

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// close answers a call, in words that nobody else uses.
func (c *Client) close(key int) Operation {
	c.owners++
	return Operation{Kind: Close, Key: key, Result: c.owner(c.Phase, c.Number, c.owners) + " answers", Retention: c.Retention}
}

// answer looks at a call and closes it, if it still can be.
func (o *Operation) answer(ctx context.Context, store dedupe.Store, key tool.CallID) (closed bool, err error) {
	transcripts, ok := store.(conversation.Store)
	if !ok {
		return false, nil // a store of a test, which has none
	}
	seen, err := store.Note(ctx, dedupe.Note{Key: key})
	if err != nil || !seen.Record.State.Refused() {
		return false, err
	}
	o.Started = instant(seen.Now)
	k := conversation.Key{Tenant: key.Tenant, ID: key.Conversation}
	before, err := transcripts.ReadConversation(ctx, k, 0, 0)
	if err != nil {
		return false, err
	}
	return transcripts.WriteConversation(ctx, conversation.Write{
		Key: k, Was: before.Head, Head: []byte(o.Result), TTL: time.Hour,
		Closings: []dedupe.Closing{{Key: key, Seen: seen, Tool: toolOf(0), Result: []byte(o.Result), Retention: o.Retention}},
	})
}
