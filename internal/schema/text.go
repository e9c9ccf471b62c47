package schema

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxReceived is the length of Error.Received, in characters.
const maxReceived = 200

// shown is v as Error.Received shows it: JSON, at most 200 characters, secrets
// replaced. secrets may be nil.
func shown(v any, secrets *sensitiveness) string {
	w := writer{limit: maxReceived * utf8.UTFMax, secrets: secrets}
	w.value(v)
	return tool.Shorten(string(w.b), maxReceived)
}

// compact is v as JSON without spaces, members in the order of their names.
func compact(v any) string {
	w := writer{limit: 1 << 20}
	w.value(v)
	return string(w.b)
}

// writer writes JSON until it has written limit bytes; then it stops looking.
type writer struct {
	b       []byte
	limit   int
	secrets *sensitiveness
}

func (w *writer) value(v any) {
	if len(w.b) > w.limit {
		return
	}
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, "null"...)
	case bool:
		w.b = strconv.AppendBool(w.b, v)
	case string:
		if w.secrets.inside(v) {
			w.b = append(w.b, quoted(tool.ReceivedRedacted)...)
			return
		}
		w.b = append(w.b, quoted(head8(v, w.limit))...)
	case json.Number:
		w.b = append(w.b, v...)
	case []any:
		w.array(v)
	case map[string]any:
		w.object(v)
	case []string:
		w.array(anys(v))
	default:
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte("null")
		}
		w.b = append(w.b, b...)
	}
}

func (w *writer) array(arr []any) {
	w.b = append(w.b, '[')
	for i, v := range arr {
		if len(w.b) > w.limit {
			return
		}
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.value(v)
	}
	w.b = append(w.b, ']')
}

func (w *writer) object(obj map[string]any) {
	w.b = append(w.b, '{')
	for i, name := range sortedNames(obj) {
		if len(w.b) > w.limit {
			return
		}
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, quoted(name)...)
		w.b = append(w.b, ':')
		if w.secrets.has(name) {
			w.b = append(w.b, quoted(tool.ReceivedRedacted)...)
			continue
		}
		w.value(obj[name])
	}
	w.b = append(w.b, '}')
}
