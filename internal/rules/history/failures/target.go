package failures

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxPaths bounds how many arguments make a target.
const maxPaths = 4

// Targeting picks out of the arguments of one tool what a call of it is about: a
// file, an address, an id. It is immutable and safe for concurrent use. A nil
// Targeting, of a tool that does not exist, goes by the arguments alone.
type Targeting struct {
	paths func() [][]string
}

// NewTargeting returns the targeting of a tool by its config: paths are arguments,
// members of them after a dot (file.path), or JSON pointers (/file/path). The error
// names the path that is none.
//
// Without paths the schema of the tool decides: the arguments whose name says that
// they name something (path, url, order_id, ...), of these the required ones where
// there are any; else the required strings. It is read at the first call.
//
// secret reports the arguments that are never shown (schema.Secret); they are never
// part of a target. nil: there are none.
func NewTargeting(paths []string, inputSchema []byte, secret func(path ...string) bool) (*Targeting, error) {
	if len(paths) > maxPaths {
		return nil, &FieldError{"target", fmt.Sprintf("at most %d arguments can be a target", maxPaths)}
	}
	named := make([][]string, 0, len(paths))
	for i, path := range paths {
		tokens := Split(path)
		if slices.Contains(tokens, "") {
			return nil, &FieldError{fmt.Sprintf("target[%d]", i), fmt.Sprintf("must name an argument, such as order_id, file.path or /file/path; it is %q", path)}
		}
		named = append(named, tokens)
	}
	visible := func(path []string) bool { return secret == nil || !secret(path...) }
	return &Targeting{paths: sync.OnceValue(func() [][]string {
		chosen := named
		if len(chosen) == 0 {
			chosen = fromSchema(inputSchema)
		}
		return slices.DeleteFunc(slices.Clone(chosen), func(path []string) bool { return !visible(path) })
	})}, nil
}

// Split takes the path of an argument apart: a.b, or /a/b as a JSON pointer.
func Split(path string) []string {
	if strings.HasPrefix(path, "/") {
		return slices.Collect(jsontext.Pointer(path).Tokens())
	}
	return strings.Split(path, ".")
}

// Of is what a call with these arguments is about, at most some 160 bytes; empty
// when nothing in them says it, which is a target like any other: the operation as
// a whole.
func (t *Targeting) Of(args map[string]any) string {
	if t == nil {
		return targetOf(fromNames(slices.Sorted(maps.Keys(args))), args)
	}
	return targetOf(t.paths(), args)
}

// Each names every scalar among what the call is about, those of a list one by one: up to 20.
func (t *Targeting) Each(args map[string]any, yield func(name, value string)) {
	if t == nil {
		return
	}
	for _, path := range t.paths() {
		all, list := at(args, path).([]any)
		if !list {
			all = []any{at(args, path)}
		}
		for _, one := range all[:min(len(all), maxListed)] {
			if text := scalar(one); text != "" {
				yield(strings.Join(path, "."), text)
			}
		}
	}
}

// Names are the arguments that say what a call is about.
func (t *Targeting) Names() (names []string) {
	if t != nil {
		for _, path := range t.paths() {
			names = append(names, strings.Join(path, "."))
		}
	}
	return names
}

func targetOf(paths [][]string, args map[string]any) string {
	var texts [maxPaths]string
	n, last := 0, 0
	for i, path := range paths {
		if texts[i] = valueAt(args, path); texts[i] != "" {
			n++
			last = i
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return bounded(texts[last])
	}
	parts := make([]string, 0, n)
	for i, text := range texts {
		if text != "" {
			parts = append(parts, strings.Join(paths[i], ".")+"="+text)
		}
	}
	return bounded(strings.Join(parts, ", "))
}

// bounded cuts a target that is too long, and marks it so that it stays another
// than those which begin like it.
func bounded(text string) string {
	if len(text) <= maxTarget {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return tool.ShortenBytes(text, maxTarget-9) + "#" + hex.EncodeToString(sum[:4])
}

// valueAt is the scalar at a path as text, or those of a short array; empty for
// anything else, and for what is never shown.
func valueAt(args map[string]any, path []string) string {
	v := at(args, path)
	arr, ok := v.([]any)
	if !ok {
		return scalar(v)
	}
	if len(arr) == 0 || len(arr) > maxListed {
		return ""
	}
	texts := make([]string, len(arr))
	for i, one := range arr {
		if texts[i] = scalar(one); texts[i] == "" {
			return ""
		}
	}
	return strings.Join(texts, ",")
}

// maxListed is how many elements of a list say what a call is about.
const maxListed = 20

// at is what stands at a path; nil where nothing does.
func at(args map[string]any, path []string) any {
	var v any = args
	for _, name := range path {
		obj, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = obj[name]
	}
	return v
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		if v == tool.ReceivedRedacted {
			return ""
		}
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	default:
		return ""
	}
}
