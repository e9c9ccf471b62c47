package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// beginnings are what senders leave out in front of a text, and by what a schema
// says that it belongs there: its format, or something in its pattern.
var beginnings = []struct {
	text     string
	formats  []string
	patterns []string
}{
	{"https://", []string{"uri", "url", "iri"}, []string{"http", "://", `:\/\/`}},
	{"+", []string{"e164"}, []string{`\+`, "[+"}},
	{"#", []string{"color"}, []string{"#"}},
	{"/", []string{"uri-reference", "iri-reference", "json-pointer"}, []string{"/"}},
}

// completed lists a text with what may have been left out in front of it, where
// the schemas want that. Nothing alone is completed: https:// is no address.
func completed(s string, list []*jsonschema.Schema) []string {
	var out []string
	for _, b := range beginnings {
		wanted := slices.ContainsFunc(list, func(sch *jsonschema.Schema) bool {
			return sch.Format != nil && slices.Contains(b.formats, sch.Format.Name) ||
				sch.Pattern != nil && slices.ContainsFunc(b.patterns, func(part string) bool { return strings.Contains(sch.Pattern.String(), part) })
		})
		if !wanted || s == "" {
			continue
		}
		switch whole := b.text + s; b.text {
		case "https://":
			if u, err := url.Parse(whole); err == nil && u.Host != "" {
				out = append(out, whole)
			}
		case "+":
			out = append(out, "+"+strings.TrimPrefix(s, "00"))
		default:
			out = append(out, whole)
		}
	}
	return out
}
