package call

import (
	"context"
	"errors"
	"slices"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/output"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// errNoReader is of a call whose time was over before its outputs were read.
var errNoReader = errors.New("too many outputs are read at the same time")

// dereference gets what the arguments of a call refer to: for each output one question
// to the store, beside the two round trips of the call. A refusal is as those of its
// schema: nothing has been sent, and what is known of the id is told before it.
func (e *Executor) dereference(ctx context.Context, c *call) *response {
	if !refers(c.Arguments) {
		return nil
	}
	sent, violation := schema.ParseArgs(c.Tool, c.Arguments)
	if violation != nil { // which validate tells
		return nil
	}
	found := findReferences(c.route, sent)
	if len(found.all) == 0 && len(found.wrong) == 0 {
		return nil
	}
	c.refs = &references{sent: sent, all: found.all}
	if len(found.wrong) > 0 {
		return c.result().Invalid(found.wrong)
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	r := reader{Executor: e, call: c}
	defer r.close()
	return r.resolve(ctx)
}

// reader gets the values of the references of a call.
type reader struct {
	*Executor

	call   *call
	values int  // how many there are in what it has got
	turn   bool // it has one of the places of those who read
}

// resolve gets all values, or says of each reference why it has none.
func (r *reader) resolve(ctx context.Context) *response {
	c := r.call
	values := make([]any, len(c.refs.all))
	wrong := make([]*tool.Error, len(c.refs.all))
	for i, ref := range c.refs.all {
		if slices.ContainsFunc(c.refs.all[:i], func(before reference) bool { return before.handle == ref.handle }) {
			continue
		}
		if failed := r.output(ctx, i, values, wrong); failed != nil {
			return failed
		}
	}
	var all []tool.Error
	for _, w := range wrong {
		if w != nil && len(all) < maxWrong {
			all = append(all, *w)
		}
	}
	if len(all) > 0 {
		return c.result().Invalid(all)
	}
	c.refs.resolved, _ = withValues(c.refs.sent, &values).(map[string]any)
	c.bring()
	return nil
}

// output gets what all references to one output stand for, from the first of them on. It
// is held no longer than that.
func (r *reader) output(ctx context.Context, first int, values []any, wrong []*tool.Error) *response {
	refs := r.call.refs.all
	kept, refused, failed := r.read(ctx, &refs[first])
	if failed != nil {
		return failed
	}
	for i := first; i < len(refs); i++ {
		ref := &refs[i]
		switch {
		case ref.handle != refs[first].handle:
		case refused != nil:
			wrong[i] = new(*refused)
			wrong[i].Field, wrong[i].Received = ref.words.Field, ref.words.Received
		default:
			values[i], wrong[i] = r.value(ref, kept)
		}
	}
	r.call.load.Empty() // what is still needed of it is bounded by itself
	return nil
}

// read gets an output.
func (r *reader) read(ctx context.Context, ref *reference) (kept output.Kept, refused *tool.Error, failed *response) {
	c := r.call
	if !r.take(ctx) {
		c.cause = errNoReader
		return kept, nil, c.result().Refused(c.notStarted(ctx), 0)
	}
	kept, err := r.outputs().Read(ctx, c.Key.Tenant, c.Key.Conversation, ref.handle)
	switch {
	case errors.Is(err, dedupe.ErrNoOutput):
		return kept, new(ref.words.NoSuch()), nil
	case dedupe.IsCorrupt(err):
		c.cause = err
		return kept, new(ref.words.Damaged()), nil
	case err != nil && ctx.Err() != nil:
		return kept, nil, c.result().Refused(c.notStarted(ctx), 0)
	case err != nil:
		c.cause = err
		return kept, nil, c.result().Refused(c.subject().StoreDown(err), explain.WhenStoreDown)
	case !c.load.Take(int64(len(kept.Data))):
		return kept, nil, c.result().Refused(c.subject().Overloaded(bytesFull), explain.WhenOverloaded)
	}
	return kept, nil, nil
}

// jsonType is the media type of structured results.
const jsonType = "application/json"

// value is what a reference stands for in an output.
func (r *reader) value(ref *reference, kept output.Kept) (any, *tool.Error) {
	refs := r.call.refs
	switch {
	case kept.MediaType != "" && kept.MediaType != jsonType:
		return nil, new(ref.words.NoText(kept.MediaType))
	case !kept.Complete:
		return nil, new(ref.words.Partial())
	case ref.path == nil:
		if refs.bytes += len(kept.Data); refs.bytes > maxReferred {
			return nil, new(ref.words.TooMuch(maxReferred))
		}
		return string(kept.Data), nil
	}
	text, err := output.Pick(kept.Data, *ref.path, maxReferred)
	if err != nil {
		return nil, new(ref.words.WrongPath(err))
	}
	if refs.bytes += len(text); refs.bytes > maxReferred {
		return nil, new(ref.words.TooMuch(maxReferred))
	}
	value, n, err := schema.ParseValue(text)
	if r.values += n; err != nil || r.values > schema.MaxValues {
		return nil, new(ref.words.TooManyValues(schema.MaxValues))
	}
	return value, nil
}

// outputs are what arguments may refer to.
func (e *Executor) outputs() result.Outputs { return result.Outputs{Dedupe: e.Dedupe, Book: e.Book} }

// take waits for a place among those who read: an output is taken whole out of the
// store, for a part of it.
func (r *reader) take(ctx context.Context) bool {
	if r.turn {
		return true
	}
	select {
	case r.readers <- struct{}{}:
		r.turn = true
	case <-ctx.Done():
	}
	return r.turn
}

func (r *reader) close() {
	if r.turn {
		<-r.readers
	}
}
