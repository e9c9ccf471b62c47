package call

import (
	"context"
	"errors"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// dereference gets what the arguments of a call refer to: for each output one question
// to the store, beside the two round trips of the call. A refusal is as those of its
// schema: nothing has been sent, and what is known of the id is told before it.
func (e *Executor) dereference(ctx context.Context, c resolved) (*references, *answer) {
	if !output.Refers(c.Arguments) {
		return nil, nil
	}
	sent, violation := schema.ParseArgs(c.Tool, c.Arguments)
	if violation != nil { // which validate tells
		return nil, nil
	}
	found := findReferences(c.route, sent)
	if len(found.all) == 0 && len(found.wrong) == 0 {
		return nil, nil
	}
	refs := &references{sent: sent, all: found.all}
	c.now.Refers, c.now.Written = true, sent
	if len(found.wrong) > 0 {
		return refs, c.result().NotValid(found.wrong)
	}
	ctx, cancel := c.deadline().bound(ctx)
	defer cancel()
	failed := (&reader{Executor: e, call: c, refs: refs}).resolve(ctx)
	c.now.Borrowed = failed == nil
	return refs, failed
}

// reader gets the values of the references of a call.
type reader struct {
	*Executor

	call   resolved
	refs   *references
	bytes  int // of the outputs that it has read
	values int // how many there are in what it has got
}

// resolve gets all values, or says of each reference why it has none.
func (r *reader) resolve(ctx context.Context) *answer {
	values := make([]any, len(r.refs.all))
	wrong := make([]*tool.Error, len(r.refs.all))
	for i, ref := range r.refs.all {
		if slices.ContainsFunc(r.refs.all[:i], func(before reference) bool { return before.handle == ref.handle }) {
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
		return r.call.result().NotValid(all)
	}
	r.refs.resolved = r.refs.with(r.refs.sent, values)
	return nil
}

// output gets what all references to one output stand for, from the first of them on. It
// is held no longer than that.
func (r *reader) output(ctx context.Context, first int, values []any, wrong []*tool.Error) *answer {
	refs := r.refs.all
	kept, refused, failed := r.read(ctx, &refs[first])
	if failed != nil {
		return failed
	}
	var of []int // the references that follow a path
	var paths []output.Path
	for i := first; i < len(refs); i++ {
		ref := &refs[i]
		switch {
		case ref.handle != refs[first].handle:
		case refused != nil:
			wrong[i] = new(*refused)
			wrong[i].Field, wrong[i].Received = ref.words.Field, ref.words.Received
		case kept.MediaType != "" && kept.MediaType != jsonType:
			wrong[i] = new(ref.words.NoText(kept.MediaType))
		case !kept.Complete:
			wrong[i] = new(ref.words.Partial())
		case ref.path == nil:
			values[i], wrong[i] = r.text(ref, kept.Data)
		default:
			of, paths = append(of, i), append(paths, *ref.path)
		}
	}
	for n, picked := range output.Pick(kept.Data, paths, maxReferred) {
		values[of[n]], wrong[of[n]] = r.picked(&refs[of[n]], picked)
	}
	r.call.stay.load.Empty() // what is still needed of it is bounded by itself
	return nil
}

// read gets an output. It is taken whole out of the store, for a part of it: there is
// room for it before that, and the call reads only so much.
func (r *reader) read(ctx context.Context, ref *reference) (kept output.Kept, refused *tool.Error, failed *answer) {
	c := r.call
	most := c.snapshot.Limits.KeepOutputBytes
	if r.bytes > 0 && int64(r.bytes)+most > max(maxRead, 2*most) {
		return kept, new(ref.words.TooMuchRead(r.bytes)), nil
	}
	if !c.stay.load.Take(most) {
		return kept, nil, c.result().Refused(c.subject().Overloaded(bytesFull), explain.WhenOverloaded)
	}
	outputs := result.Outputs{Dedupe: r.Dedupe, Book: r.Book}
	kept, err := outputs.Read(ctx, c.Key.Tenant, c.Key.Conversation, ref.handle)
	switch {
	case errors.Is(err, dedupe.ErrNoOutput):
		return kept, new(ref.words.NoSuch()), nil
	case dedupe.IsCorrupt(err):
		c.log.cause = err
		return kept, new(ref.words.Damaged()), nil
	case err != nil && ctx.Err() != nil:
		return kept, nil, c.result().Refused(c.notStarted(ctx), 0)
	case err != nil:
		c.log.cause = err
		return kept, nil, c.result().Refused(c.subject().StoreDown(err), explain.WhenStoreDown)
	}
	if more := int64(len(kept.Data)) - most; more > 0 && !c.stay.load.Take(more) { // kept when more could be
		return output.Kept{}, nil, c.result().Refused(c.subject().Overloaded(bytesFull), explain.WhenOverloaded)
	}
	r.bytes += len(kept.Data)
	return kept, nil, nil
}

// jsonType is the media type of structured results.
const jsonType = "application/json"

// text is an output as a text.
func (r *reader) text(ref *reference, data []byte) (any, *tool.Error) {
	if wrong := r.bring(ref, len(data)); wrong != nil {
		return nil, wrong
	}
	return string(data), nil
}

// picked is a value that a path leads to.
func (r *reader) picked(ref *reference, found output.Picked) (any, *tool.Error) {
	if found.Err != nil {
		return nil, new(ref.words.WrongPath(found.Err))
	}
	if wrong := r.bring(ref, len(found.Value)); wrong != nil {
		return nil, wrong
	}
	value, n, err := schema.ParseValue(found.Value)
	if r.values += n; err != nil || r.values > schema.MaxValues {
		return nil, new(ref.words.TooManyValues(schema.MaxValues))
	}
	return value, nil
}

// bring counts what a reference brings.
func (r *reader) bring(ref *reference, size int) *tool.Error {
	if r.refs.bytes += size; r.refs.bytes > maxReferred {
		return new(ref.words.TooMuch(maxReferred))
	}
	return nil
}
