package httptool

import (
	"net/url"
	"strings"
)

// parameters are the names of the query parameters that the operator wrote into the
// path, escaped as they stand there.
func (p *path) parameters() (names []string) {
	for parameter := range strings.FieldsFuncSeq(p.query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(parameter, "=")
		names = append(names, name)
	}
	return names
}

// fixed are these names as queryName has them.
func (p *path) fixed() map[string]bool {
	names := make(map[string]bool)
	for _, name := range p.parameters() {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		names[queryName(name)] = true
	}
	return names
}

// queryName is what a server may take the name of a query parameter for: some do
// not tell capitals apart, PHP reads a[x], " a" and a as one name, and . and blanks
// within as _. Of two with one name most take the last.
func queryName(name string) string {
	name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "[")
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_").Replace(name))
}
