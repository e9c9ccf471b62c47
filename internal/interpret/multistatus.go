package interpret

import (
	"net/http"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// asIs reads a reply that says that it tells item by item (HTTP status 207) where no
// rule says how: by what each item says of itself.
var asIs = &partial{}

// itemwise is what reads the items of a reply; nil when it has none.
func (p *Program) itemwise(v *view) *partial {
	if p.partial == nil && v.reply.Status == http.StatusMultiStatus {
		return asIs
	}
	return p.partial
}

// multiStatus is the list in a reply whose items say what became of them: the body,
// or the only such list in it.
func multiStatus(v *view) (found traits.Lister, ok bool) {
	body := types.DefaultTypeAdapter.NativeToValue(v.parsed())
	if list, is := body.(traits.Lister); is {
		return list, speaks(list)
	}
	object, is := body.(traits.Mapper)
	if !is {
		return nil, false
	}
	for it := object.Iterator(); it.HasNext() == types.True; {
		list, is := object.Get(it.Next()).(traits.Lister)
		if !is || !speaks(list) {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = list
	}
	return found, found != nil
}

// speaks reports whether every item of a list that is not empty says whether it was
// done.
func speaks(list traits.Lister) bool {
	some := false
	for it := list.Iterator(); it.HasNext() == types.True; some = true {
		if wordOf(it.Next()).word == silent {
			return false
		}
	}
	return some
}

// idOf is what an item of a shape in use is called; nil when it does not say.
func idOf(item ref.Val) ref.Val {
	for range maxWrapped {
		object, ok := item.(traits.Mapper)
		if !ok {
			return nil
		}
		for _, name := range [...]string{"id", "_id", "bulkId", "href"} {
			if id := member(object, name); id != nil {
				return id
			}
		}
		if item = onlyMember(object); item == nil {
			return nil
		}
	}
	return nil
}
