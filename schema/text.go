package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sidecall/sidecall/tool"
)

// printer is for the library's own sentences.
var printer = message.NewPrinter(language.English)

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

// head8 is the start of s, cut between runes, a little longer than limit bytes
// so that the cut shows.
func head8(s string, limit int) string {
	if len(s) <= limit+utf8.UTFMax {
		return s
	}
	n := limit + utf8.UTFMax
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// articled puts an article before the name of a JSON type.
func articled(name string) string {
	switch {
	case name == "null":
		return name
	case name != "" && strings.ContainsRune("aeiou", rune(name[0])):
		return "an " + name
	default:
		return "a " + name
	}
}

// oneLine makes a description of a schema fit for a hint: one line, short,
// without the phrases that programs look for.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(head8(s, 16*limit), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	s = strings.NewReplacer("e.g. ", "such as ", "Did you mean", "Is it").Replace(s)
	return tool.Shorten(strings.TrimRight(strings.Join(strings.Fields(s), " "), "."), limit)
}

// splitPointer is a JSON pointer's tokens, unescaped.
func splitPointer(p string) []string {
	if p == "" {
		return nil
	}
	tokens := strings.Split(p[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens
}
