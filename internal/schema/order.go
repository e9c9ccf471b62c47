package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// unknown reports whether f is about a property that may not be there.
func (f finding) unknown() bool {
	switch f.kind.(type) {
	case *kind.AdditionalProperties:
		return true
	case *kind.FalseSchema:
		return f.name != ""
	}
	return false
}

func (f finding) missing() bool {
	switch f.kind.(type) {
	case *kind.Required, *kind.DependentRequired, *kind.Dependency:
		return true
	}
	return false
}

// rank orders findings by how much repairing one helps with the rest.
func (f finding) rank() int {
	if f.moved != nil { // the value first, then its name
		return 0
	}
	switch f.kind.(type) {
	case *kind.AdditionalProperties, *kind.FalseSchema:
		if f.rename != "" {
			return 1
		}
		return 4
	case *kind.Required, *kind.DependentRequired, *kind.Dependency:
		return 2
	case *kind.OneOf, *kind.Not, *kind.MinProperties, *kind.MaxProperties:
		return 5
	default:
		return 3
	}
}

func compareFindings(a, b finding) int {
	if d := a.rank() - b.rank(); d != 0 {
		return d
	}
	if d := slices.CompareFunc(a.at, b.at, compareTokens); d != 0 {
		return d
	}
	return strings.Compare(keywordOf(a), keywordOf(b))
}

// compareTokens orders indexes by number and names by letter.
func compareTokens(a, b string) int {
	if len(a) != len(b) && isIndex(a) && isIndex(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// keywordOf is the name of the keyword that failed; empty when there is none.
func keywordOf(f finding) string {
	if path := f.kind.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return ""
}

// shortestArrays keeps, of the items that an array must not have at all, the
// first: the array ends there.
func shortestArrays(findings []finding) []finding {
	var out []finding
	for _, f := range findings {
		_, forbidden := f.kind.(*kind.FalseSchema)
		if !forbidden || f.name != "" || len(f.at) == 0 {
			out = append(out, f)
			continue
		}
		shorter := slices.IndexFunc(out, func(o finding) bool {
			_, same := o.kind.(*kind.FalseSchema)
			return same && o.name == "" && len(o.at) == len(f.at) && o.at.parent().equal(f.at.parent())
		})
		switch {
		case shorter < 0:
			out = append(out, f)
		case compareTokens(f.at.last(), out[shorter].at.last()) < 0:
			out[shorter] = f
		}
	}
	return out
}
