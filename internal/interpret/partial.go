package interpret

import (
	"cmp"
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxItems is how many items are reported one by one. The outcome counts
	// all of them, and the reply itself is complete.
	maxItems = 1000
	// maxItemsCost bounds what the expressions of all items cost, in CEL's units: a
	// reply with more is read as a whole, as nobody knows of its last items.
	maxItemsCost = 10 * costLimit
	// maxItemText bounds what is shown of one item, in bytes.
	maxItemText = 4 << 10
)

// maxItemID bounds what an item is called, in bytes.
const maxItemID = 200

// partial is a compiled PartialRule; the zero value asks each item itself.
type partial struct {
	items, ok            *expression
	id, content, problem *expression // nil: not known; the item itself
}

// read reads the items into the reading. A reply without the list, or with an
// empty one, is left as it is. When not one item was done, the call failed.
func (p *partial) read(v *view, reading *Reading) {
	list, err := p.list(v)
	if err != nil {
		reading.Unread = reading.Unread || v.reply.Cut || tooCostly(err)
		return
	}
	total, isDone, ambiguous, spent := 0, 0, -1, int64(0)
	for it := list.Iterator(); it.HasNext() == types.True; total++ {
		item := p.readItem(v, it.Next(), total, &spent)
		if spent > maxItemsCost {
			reading.Items, reading.Unread = nil, true
			return
		}
		if item.OK {
			isDone++
		} else if item.Ambiguous && ambiguous < 0 {
			ambiguous = len(reading.Items)
		}
		if total < maxItems {
			reading.Items = append(reading.Items, item)
		}
	}
	reading.Total, reading.Done = total, isDone
	switch {
	case total == 0 || isDone == total:
	case isDone > 0:
		reading.Outcome = Partial
	default:
		reading.Failure = noneDone(v, reading, ambiguous)
	}
}

// list is the list of items in a reply; the error is why there is none.
func (p *partial) list(v *view) (traits.Lister, error) {
	if p.items == nil {
		if list, ok := multiStatus(v); ok {
			return list, nil
		}
		return nil, errAbsent
	}
	value, err := p.items.value(v)
	if list, ok := value.(traits.Lister); ok && err == nil {
		return list, nil
	}
	return nil, cmp.Or(err, errAbsent)
}

// noneDone is the failure of a call of whose items none was done. Where one of them,
// at index ambiguous, may have been, so may the call; -1 is for none.
func noneDone(v *view, reading *Reading, ambiguous int) *tool.Failure {
	first := reading.Items[0].Error
	failure := &tool.Failure{
		Code: tool.CodeUnrecoverable, Evidence: tool.Definite, CallerFault: true,
		ErrorType: errorTypeTool, Status: v.reply.Status,
		Constraint: fmt.Sprintf("none of the %d items was done", reading.Total),
		Message:    first.Received,
	}
	if ambiguous >= 0 && ambiguous < len(reading.Items) {
		failure.Code, failure.Evidence, failure.CallerFault = reading.Items[ambiguous].Error.Code, tool.Ambiguous, false
		failure.Message = reading.Items[ambiguous].Error.Received
	}
	return failure
}

func (p *partial) readItem(v *view, value ref.Val, index int, spent *int64) Item {
	v.item, v.index = value, index
	var said verdict
	var isDone bool
	if p.ok == nil {
		said = wordOf(value)
		*spent++
		isDone = said.word == done
	} else {
		holds, err := p.ok.priced(v, spent)
		if tooCostly(err) {
			*spent = maxItemsCost + 1
			return Item{}
		}
		if isDone = err == nil && holds == types.True; !isDone {
			said = wordOf(value)
		}
	}
	item := Item{Index: index, OK: isDone}
	if !isDone && said.word == notDone {
		item.Ambiguous = said.ambiguous
	}
	if index >= maxItems { // counted, not reported
		return item
	}
	item.ID = p.called(v, value, spent)
	if isDone {
		item.Content = p.show(p.content, v, value, spent)
		return item
	}
	item.Error = &tool.Error{
		Code:       tool.CodeUnrecoverable,
		Constraint: fmt.Sprintf("item %d was not done", index),
		Received:   p.show(p.problem, v, value, spent),
		Hint:       "Correct this item if you can, and call again with only the items that were not done.",
	}
	if said.word == notDone {
		item.Error.Code = said.code
	}
	return item
}

// called is what an item is called; empty when nobody says.
func (p *partial) called(v *view, item ref.Val, spent *int64) string {
	var value ref.Val
	switch {
	case p.id != nil:
		found, err := p.id.priced(v, spent)
		if err != nil {
			return ""
		}
		value = found
	case p.items == nil:
		if value = idOf(item); value == nil {
			return ""
		}
	default:
		return ""
	}
	switch id := value.Value().(type) {
	case string:
		return tool.ShortenBytes(id, maxItemID)
	case int64, uint64:
		return fmt.Sprint(id)
	default:
		return ""
	}
}

// show is the text of an expression over an item, or of the item where there
// is none or it cannot be evaluated.
func (p *partial) show(e *expression, v *view, item ref.Val, spent *int64) string {
	value := item
	if e != nil {
		if shown, err := e.priced(v, spent); err == nil {
			value = shown
		}
	}
	if text, ok := value.Value().(string); ok {
		return tool.ShortenBytes(text, maxItemText)
	}
	text, err := encode(plainValue(value))
	if err != nil {
		return "" // no JSON value, so nothing to show
	}
	return tool.ShortenBytes(string(text), maxItemText)
}
