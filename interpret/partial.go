package interpret

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sidecall/sidecall/tool"
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

// partial is a compiled PartialRule.
type partial struct {
	items, ok        *expression
	content, problem *expression // nil: the item itself
}

// read reads the items into the reading. A reply without the list, or with an
// empty one, is left as it is. When not one item was done, the call failed.
func (p *partial) read(v *view, reading *Reading) {
	value, err := p.items.value(v)
	if err != nil {
		return
	}
	list, isList := value.(traits.Lister)
	if !isList {
		return
	}
	total, done, spent := 0, 0, int64(0)
	for it := list.Iterator(); it.HasNext() == types.True; total++ {
		item := p.readItem(v, it.Next(), total, &spent)
		if spent > maxItemsCost {
			reading.Items = nil
			return
		}
		if item.OK {
			done++
		}
		if total < maxItems {
			reading.Items = append(reading.Items, item)
		}
	}
	switch {
	case total == 0 || done == total:
	case done > 0:
		reading.Outcome = Partial
	default:
		reading.Failure = &tool.Failure{
			Code: tool.CodeUnrecoverable, Evidence: tool.Definite, CallerFault: true,
			ErrorType: errorTypeTool, Status: v.reply.Status,
			Constraint: fmt.Sprintf("none of the %d items was done", total),
			Message:    reading.Items[0].Error.Received,
		}
	}
}

func (p *partial) readItem(v *view, value ref.Val, index int, spent *int64) Item {
	v.item, v.index = value, index
	holds, err := p.ok.priced(v, spent)
	if index >= maxItems { // counted, not reported
		return Item{Index: index, OK: err == nil && holds == types.True}
	}
	if err == nil && holds == types.True {
		return Item{Index: index, OK: true, Content: p.show(p.content, v, value, spent)}
	}
	return Item{Index: index, Error: &tool.Error{
		Code:       tool.CodeUnrecoverable,
		Constraint: fmt.Sprintf("item %d was not done", index),
		Received:   p.show(p.problem, v, value, spent),
		Hint:       "Correct this item if you can, and call again with only the items that were not done.",
	}}
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
