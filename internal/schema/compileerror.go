package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// explainCompile turns the library's error into a place and a reason.
func explainCompile(name string, doc any, err error) *CompileError {
	out := &CompileError{Tool: name}
	var (
		meta    *jsonschema.SchemaValidationError
		pattern *jsonschema.InvalidRegexError
		load    *jsonschema.LoadURLError
		pointer *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &meta):
		out.Pointer, out.Reason = explainMeta(meta)
	case errors.As(err, &pattern):
		out.Pointer = fragment(pattern.URL)
		out.Reason = unusable(pattern.Regex, pattern.Err)
	case errors.As(err, &load):
		out.Pointer = findReference(doc, func(ref string) bool {
			return strings.HasPrefix(ref, load.URL) || strings.HasSuffix(load.URL, strings.TrimPrefix(ref, "./"))
		})
		out.Reason = fmt.Sprintf("refers to another document, %s: %v", strings.TrimPrefix(load.URL, "sidecall:///"), errRemote)
	case errors.As(err, &pointer):
		target := fragment(pointer.URL)
		out.Pointer = findReference(doc, func(ref string) bool { return strings.HasSuffix(ref, "#"+target) })
		out.Reason = "refers to #" + target + ", which is not there"
	case errors.As(err, &anchor):
		_, target, _ := strings.Cut(anchor.Reference, "#")
		out.Pointer = findReference(doc, func(ref string) bool { return strings.HasSuffix(ref, "#"+target) })
		out.Reason = "refers to #" + target + ", which is not there"
	default:
		out.Reason = strings.ReplaceAll(err.Error(), documentURL, "")
	}
	return out
}

func unusable(source string, err error) string {
	return fmt.Sprintf("the regular expression %s cannot be used: %v", strconv.Quote(tool.Shorten(source, maxShownPattern)), err)
}

// maxShownPattern is how much of an expression is written down, in characters.
const maxShownPattern = 200

// explainMeta finds the deepest complaint of the meta-schema: it is the most
// specific. Of several it is the first in the alphabet of their places, as the
// library finds them in any order.
func explainMeta(err *jsonschema.SchemaValidationError) (pointer, reason string) {
	var invalid *jsonschema.ValidationError
	if !errors.As(err.Err, &invalid) {
		return fragment(err.URL), err.Err.Error()
	}
	deepest := slices.MinFunc(leaves(invalid, nil), func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			len(b.InstanceLocation)-len(a.InstanceLocation),
			slices.Compare(a.InstanceLocation, b.InstanceLocation),
		)
	})
	return pointerTo(fragment(err.URL), deepest.InstanceLocation...), complaint(deepest.ErrorKind)
}

// leaves adds the complaints that have no others below them.
func leaves(e *jsonschema.ValidationError, out []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return append(out, e)
	}
	for _, cause := range e.Causes {
		out = leaves(cause, out)
	}
	return out
}

// complaint words what the library found, for an operator.
func complaint(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + articled(strings.Join(k.Want, " or ")) + ", not " + articled(k.Got)
	case *kind.Enum:
		return "must be one of " + compact(k.Want) + ", not " + compact(k.Got)
	case *kind.Format:
		if source, ok := k.Got.(string); ok && k.Want == "regex" {
			return unusable(source, k.Err)
		}
		return "must be of the format " + k.Want
	default:
		return strings.ReplaceAll(fmt.Sprint(k.LocalizedString(printer)), "'", `"`)
	}
}

// findReference is the pointer of the first $ref (or $schema) that matches.
func findReference(v any, matches func(ref string) bool) string {
	pointer, _ := searchReference(v, "", matches)
	return pointer
}

func searchReference(v any, at string, matches func(ref string) bool) (string, bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedNames(v) {
			child := pointerTo(at, name)
			if ref, ok := v[name].(string); ok && strings.HasPrefix(name, "$") && matches(ref) {
				return child, true
			}
			if found, ok := searchReference(v[name], child, matches); ok {
				return found, true
			}
		}
	case []any:
		for i, one := range v {
			if found, ok := searchReference(one, fmt.Sprintf("%s/%d", at, i), matches); ok {
				return found, true
			}
		}
	}
	return "", false
}

// CompileError says why a schema cannot be used.
type CompileError struct {
	// Tool is the name of the tool.
	Tool string
	// Pointer is the JSON pointer (RFC 6901) of the place at fault in the
	// schema; empty for the schema as a whole.
	Pointer string
	// Reason is one clause without a full stop.
	Reason string
}

func (e *CompileError) Error() string {
	at := ""
	if e.Pointer != "" {
		at = " at " + e.Pointer
	}
	return fmt.Sprintf("tool %q: input schema%s: %s", e.Tool, at, e.Reason)
}

// OutputError is a CompileError of an output schema.
type OutputError struct{ CompileError }

func (e *OutputError) Error() string {
	return strings.Replace(e.CompileError.Error(), "input schema", "output schema", 1)
}

// documentURL is what the library calls the one document it knows.
const documentURL = "sidecall:///schema.json"

// errRemote is the answer to every request for another document.
var errRemote = errors.New("references to other documents are never fetched")
