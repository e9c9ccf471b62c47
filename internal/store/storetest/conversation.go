package storetest

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// inConversation is a store for part of a case, whose calls are all of a
// conversation of its own.
type inConversation struct {
	dedupe.Store

	name string
}

func (s inConversation) moved(k tool.CallID) tool.CallID {
	k.Conversation = s.name
	return k
}

// Admit implements dedupe.Store.
func (s inConversation) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	req.Key = s.moved(req.Key)
	return s.Store.Admit(ctx, req)
}

// Settle implements dedupe.Store.
func (s inConversation) Settle(ctx context.Context, settles dedupe.Settlement) (dedupe.SettleVerdict, error) {
	settles.Key = s.moved(settles.Key)
	return s.Store.Settle(ctx, settles)
}

// Renew implements dedupe.Store.
func (s inConversation) Renew(ctx context.Context, r dedupe.Renewal) (dedupe.Record, bool, error) {
	r.Key = s.moved(r.Key)
	return s.Store.Renew(ctx, r)
}

// Note implements dedupe.Store.
func (s inConversation) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	n.Key = s.moved(n.Key)
	return s.Store.Note(ctx, n)
}
