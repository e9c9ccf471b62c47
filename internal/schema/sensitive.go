package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// sensitiveness knows the property names whose values are never shown. It goes
// by name alone, wherever the name appears: a secret sent to the wrong place is
// still a secret. A name that is nearly one of them counts too, because a
// misspelt password is one.
type sensitiveness struct {
	names []secretName
	// all: the arguments as a whole are marked.
	all bool

	// left is what it may still cost to compare names, for one look at arguments. When it
	// is spent everything counts as secret.
	left int
	// known is what was found out of the names so far.
	known map[string]bool
}

// secretName is the name of a secret, prepared for comparison.
type secretName struct {
	spelling

	lower string
}

// maxLikeness is how many cells of tables of distances are filled for one look at
// arguments, in some 50 ms.
const maxLikeness = 1 << 24

// forOne is what s knows, for one look at arguments.
func (s *sensitiveness) forOne() *sensitiveness {
	if !s.any() {
		return s
	}
	return &sensitiveness{names: s.names, all: s.all, left: maxLikeness, known: map[string]bool{}}
}

// spend reports whether so much may still be compared.
func (s *sensitiveness) spend(cost int) bool {
	s.left -= cost
	return s.left >= 0
}

func (s *sensitiveness) any() bool { return s != nil && (s.all || len(s.names) > 0) }

// has reports whether name is, or nearly is, the name of a secret.
func (s *sensitiveness) has(name string) bool {
	if !s.any() || s.all {
		return s.any()
	}
	secret, known := s.known[name]
	if !known {
		spelt := newSpelling(name)
		secret = slices.ContainsFunc(s.names, func(of secretName) bool {
			return !s.spend(cells(spelt.plain, of.plain)) || sameOrTypo(spelt, of.spelling)
		})
		s.known[name] = secret
	}
	return secret
}

// covers reports whether any name on the way to l is a secret's.
func (s *sensitiveness) covers(l location) bool {
	if s.any() && s.all {
		return true
	}
	return slices.ContainsFunc(l, s.has)
}

// inside reports whether a string may carry a secret of its own: an object
// written as text.
func (s *sensitiveness) inside(text string) bool {
	if s == nil || len(s.names) == 0 || !strings.ContainsAny(text, `{[:=`) {
		return false
	}
	lower := strings.ToLower(text)
	return slices.ContainsFunc(s.names, func(of secretName) bool {
		return !s.spend(1+len(text)/8) || strings.Contains(lower, of.lower)
	})
}

// within reports whether v holds a secret at any depth.
func (s *sensitiveness) within(v any) bool {
	if !s.any() {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if s.has(name) || s.within(child) {
				return true
			}
		}
	case []any:
		return s.all || slices.ContainsFunc(v, s.within)
	case string:
		return s.inside(v)
	}
	return s.all
}

// texts adds the secrets in v to out; in a secret v every scalar is one.
func (s *sensitiveness) texts(v any, secret bool, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			out = s.texts(child, secret || s.has(name), out)
		}
	case []any:
		for _, child := range v {
			out = s.texts(child, secret, out)
		}
	case string:
		if v != "" && (secret || s.inside(v)) {
			out = append(out, v)
		}
	case nil:
	default:
		if secret {
			out = append(out, fmt.Sprint(v))
		}
	}
	return out
}

func (s *sensitiveness) redacted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if out[name] = tool.ReceivedRedacted; !s.has(name) {
				out[name] = s.redacted(child)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = s.redacted(child)
		}
		return out
	case string:
		if s.inside(v) {
			return tool.ReceivedRedacted
		}
	}
	return v
}
