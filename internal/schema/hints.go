package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// received shows the value at l as it was sent, or says why not.
func (x *explainer) received(l location) string {
	v, present := l.at(x.given)
	switch {
	case x.secrets.covers(l) && present:
		return tool.ReceivedRedacted
	case !present:
		return tool.ReceivedMissing
	}
	if s, ok := v.(string); ok && x.secrets.inside(s) {
		return tool.ReceivedRedacted
	}
	return shown(v, x.secrets)
}

// subject names the value at fault in a sentence.
func (x *explainer) subject(f finding) string {
	if len(f.at) == 0 {
		return "the arguments"
	}
	return tool.Shorten(f.at.field(x.args), 100)
}

// again is the end of every hint.
func (x *explainer) again() string { return ", then call " + x.name + " again." }

// hint is a sentence with an example that fits, where there is one.
func (x *explainer) hint(f finding, what string) string {
	return what + x.example(f) + x.again()
}

// maxExample bounds an example in a hint, in bytes.
const maxExample = 300

// example is ", e.g. X" with a valid value for the place of f; empty when none
// is known, or none is short enough.
func (x *explainer) example(f finding) string {
	if v, ok := x.exampleValue(f); ok {
		return exampleText(v)
	}
	return ""
}

func exampleText(v any) string {
	text := compact(v)
	if len(text) > maxExample {
		return ""
	}
	return ", e.g. " + text
}

// exampleValue prefers what the sender may have meant, unless that is secret,
// to what the schema's author gives and to what fits at all; and of these the
// first with which the object or array around it fits too.
func (x *explainer) exampleValue(f finding) (any, bool) {
	list := x.schemasFor(f)
	secret := x.secrets.covers(f.at)
	m := &maker{looks: x.looks, ix: x.ix, budget: makerBudget, secret: secret}
	got, present := x.value(f.at)
	var candidates []any
	if present && !secret && !x.secrets.within(got) && small(got) {
		candidates = derived(got, list, m)
	}
	if !keepsContent(f.kind) || !present || small(got) {
		if made, ok := m.make(list, 0); ok {
			candidates = append(append(candidates, made), m.variants(made, list)...)
		}
	}
	return x.bestOf(f, list, candidates)
}

// bestOf takes the first candidate with which its surroundings fit, else the
// first that fits by itself.
func (x *explainer) bestOf(f finding, list []*jsonschema.Schema, candidates []any) (any, bool) {
	candidates = slices.DeleteFunc(unique(candidates), func(v any) bool {
		return len(compact(v)) > maxExample || !x.fits(list, v)
	})
	if len(candidates) == 0 {
		return nil, false
	}
	around := x.around(f)
	for _, v := range candidates[:min(len(candidates), 40)] {
		if around != nil && around(v) {
			return v, true
		}
	}
	return candidates[0], true
}

// around returns a test of whether the object or array that holds the value of
// f fits once that value is another; nil when there is none, or it is large.
func (x *explainer) around(f finding) func(v any) bool {
	if len(f.at) == 0 || f.moved != nil {
		return nil
	}
	parent, _ := x.value(f.at.parent())
	if !small(parent) {
		return nil
	}
	list := x.schemasAt(f.at.parent())
	return func(v any) bool {
		holder := map[string]any{"": clone(parent)}
		if !replace(holder, location{"", f.at.last()}, v) {
			return false
		}
		return x.fits(list, holder[""])
	}
}

// small reports whether a value is worth rewriting in a hint.
func small(v any) bool {
	w := writer{limit: 4 * maxExample}
	w.value(v)
	return len(w.b) <= 4*maxExample
}

// keepsContent: the value is of the right kind, there is only too much or too
// little of it; an unrelated example would suggest to throw it away.
func keepsContent(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.MaxLength, *kind.MaxItems, *kind.UniqueItems, *kind.MaxProperties:
		return true
	}
	return false
}
