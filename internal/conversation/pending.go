package conversation

import (
	"context"
	"fmt"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// Asked is a call as the model made it.
type Asked struct {
	Call

	// Arguments are the model's, untouched.
	Arguments string
	// Custom is as in provider.Call.
	Custom string
}

// Pending returns the open calls of a conversation, in their order.
func (b *Book) Pending(ctx context.Context, key Key, head *Head) ([]Asked, error) {
	all := make([]Asked, 0, len(head.Open))
	var page []Message
	from, at := int64(0), int64(-1)
	var calls map[string]*provider.Call // those of the message at
	for _, call := range head.Open {
		if call.At < from || call.At >= from+int64(len(page)) {
			var err error
			if _, page, err = b.Load(ctx, key, call.At, MaxMessageBytes); err != nil {
				return nil, err
			}
			from = call.At
		}
		if call.At != at {
			var err error
			if calls, err = callsIn(head.Provider, page[call.At-from].JSON); err != nil {
				return nil, fmt.Errorf("%w: message %d: %w", ErrCorrupt, call.At, err)
			}
			at = call.At
		}
		asked, found := calls[call.ID]
		if !found {
			return nil, fmt.Errorf("%w: message %d has no call %s", ErrCorrupt, call.At, tool.Quote(call.ID))
		}
		all = append(all, Asked{Call: call, Arguments: asked.Arguments(), Custom: asked.Custom})
	}
	return all, nil
}

// callsIn are the calls of a message by their ids.
func callsIn(format provider.Format, raw string) (map[string]*provider.Call, error) {
	m, err := provider.ReadEntry(raw)
	if err != nil {
		return nil, err
	}
	calls := map[string]*provider.Call{}
	return calls, m.Calls(format, func(c *provider.Call) error {
		calls[c.ID] = c
		return nil
	})
}
