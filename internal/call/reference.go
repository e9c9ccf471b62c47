package call

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// An argument may stand for a part of an output of its conversation, which then does not
// pass through the model:
//
//	{"order_id": {"$output_ref": "out_…", "path": "$.items[0].id"}}
//
// What identifies such a call (its fingerprint, the loop guard, what is told of it) is
// what the model wrote, with what its schema makes of the rest, so that a call that is
// sent again is known when its output has expired. What it does (the schema, the backend,
// the effect key, a look) goes by what the reference brings.

const (
	pathMember = "path"

	// maxReferences is how often a call may refer to outputs.
	maxReferences = 16
	// maxReferred is how many bytes its references may bring, in all.
	maxReferred = 1 << 20
	// maxRead is how many bytes of outputs are read for a call, or two outputs that are
	// as long as one may be: references are short, and outputs are not.
	maxRead = 4 << 20
)

// reference is an argument that stands for a part of an output.
type reference struct {
	at     []string // the way to it, from the arguments
	handle string
	path   *output.Path // nil for the output as a text
	words  explain.Reference
}

// references are those of a call. The methods take a nil one for none.
type references struct {
	sent     map[string]any // the arguments as they were written
	all      []reference    // in the order of a walk: by name, by index
	resolved map[string]any // nil until each has its value
	bytes    int            // that they bring
}

// lost reports that a reference has no value.
func (r *references) lost() bool { return r != nil && r.resolved == nil }

func (r *references) size() int {
	if r == nil {
		return 0
	}
	return r.bytes
}

// fingerprint is that of the call with arguments as its schema has read them, but for what the
// references bring.
func (r *references) fingerprint(toolName string, checked map[string]any) [32]byte {
	written := make([]any, len(r.all))
	for i := range r.all {
		written[i] = schema.At(r.sent, r.all[i].at)
	}
	canonical, err := schema.Canonical(r.with(checked, written))
	if err != nil { // with what it stands for it is no shorter, and was written already
		return schema.Fingerprint(toolName, nil)
	}
	return schema.Fingerprint(toolName, canonical)
}

// with are arguments that have values in the places of the references, in their order.
func (r *references) with(args map[string]any, values []any) map[string]any {
	var all any = args
	for i := range r.all {
		all = withAt(all, r.all[i].at, values[i])
	}
	args, _ = all.(map[string]any) // no reference is all of them
	return args
}

// conceal takes what references bring out of what is said of it.
func (r *references) conceal(violations []tool.Error, route *catalog.Route) {
	if r == nil {
		return
	}
	for i := range violations {
		r.hide(&violations[i], route)
	}
}

// hide does so for one violation: of a value that a reference brings, or of one that has
// such a value in it.
func (r *references) hide(v *tool.Error, route *catalog.Route) {
	if r == nil {
		return
	}
	path := schema.FieldPath(v.Field)
	for i := range r.all {
		ref := &r.all[i]
		n := min(len(path), len(ref.at))
		if !slices.Equal(path[:n], ref.at[:n]) {
			continue
		}
		v.Field = schema.Field(r.sent, path[:n]...) // names further in are the output's
		if v.Received != tool.ReceivedRedacted {
			v.Received = route.Schema.Shown(schema.At(r.sent, path[:n]))
		}
		v.Hint = ref.words.DoesNotFit()
		return
	}
}

// withAt is v with another value at the end of a way, as far as that is there. v is not changed.
func withAt(v any, way []string, value any) any {
	if len(way) == 0 {
		return value
	}
	switch parent := v.(type) {
	case map[string]any:
		out := maps.Clone(parent)
		out[way[0]] = withAt(parent[way[0]], way[1:], value)
		return out
	case []any:
		if i, err := strconv.Atoi(way[0]); err == nil && i >= 0 && i < len(parent) {
			out := slices.Clone(parent)
			out[i] = withAt(parent[i], way[1:], value)
			return out
		}
	}
	return v
}

// finder finds the references in arguments.
type finder struct {
	route *catalog.Route
	sent  map[string]any
	all   []reference
	wrong []tool.Error
}

// maxWrong is how many references are said to be wrong at once.
const maxWrong = 10

func findReferences(route *catalog.Route, sent map[string]any) *finder {
	f := &finder{route: route, sent: sent}
	if _, all := sent[output.RefMember]; all {
		f.wrong = []tool.Error{f.words(nil, sent).AllArguments()}
		return f
	}
	f.walk(sent, nil)
	return f
}

func (f *finder) words(at []string, value any) explain.Reference {
	received := tool.ReceivedRedacted
	if !f.route.Schema.Secret(at...) {
		received = f.route.Schema.Shown(value)
	}
	return explain.Reference{Field: schema.Field(f.sent, at...), Received: received, Tool: f.route.Tool.Name}
}

func (f *finder) walk(v any, at []string) {
	if len(f.wrong) >= maxWrong {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[output.RefMember]; ok {
			f.add(v, at)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			f.walk(v[name], append(slices.Clip(at), name))
		}
	case []any:
		for i, item := range v {
			f.walk(item, append(slices.Clip(at), strconv.Itoa(i)))
		}
	}
}

func (f *finder) add(v map[string]any, at []string) {
	ref := reference{at: at, words: f.words(at, v)}
	if wrong := ref.take(v); wrong != nil {
		f.wrong = append(f.wrong, *wrong)
		return
	}
	if f.all = append(f.all, ref); len(f.all) > maxReferences {
		f.wrong = append(f.wrong[:0], ref.words.TooMany(maxReferences))
	}
}

// take reads a reference; why it is none.
func (r *reference) take(v map[string]any) *tool.Error {
	misshapen := func(why string) *tool.Error {
		wrong := r.words.Misshapen(why)
		return &wrong
	}
	handle, ok := v[output.RefMember].(string)
	if !ok || handle == "" {
		return misshapen("has the output_ref as a string")
	}
	r.handle = handle
	path, given := v[pathMember]
	if others := len(v) - 1; others > 1 || others == 1 && !given {
		return misshapen("has the members $output_ref and path, and no others")
	}
	if !given {
		return nil
	}
	text, ok := path.(string)
	if !ok {
		return misshapen("has the path as a string")
	}
	parsed, err := output.ParsePath(text)
	if err != nil {
		wrong := r.words.WrongPath(err)
		return &wrong
	}
	r.path = &parsed
	return nil
}
