package schema

import (
	"fmt"
	"slices"
	"strings"
)

// sensitiveness knows the property names whose values are never shown. It goes
// by name alone, wherever the name appears: a secret sent to the wrong place is
// still a secret. A name that is nearly one of them counts too, because a
// misspelt password is one.
type sensitiveness struct {
	names []string
	// all: the arguments as a whole are marked.
	all bool
}

func (s *sensitiveness) any() bool { return s != nil && (s.all || len(s.names) > 0) }

// has reports whether name is, or nearly is, the name of a secret.
func (s *sensitiveness) has(name string) bool {
	if s == nil {
		return false
	}
	if s.all {
		return true
	}
	for _, secret := range s.names {
		if sameOrTypo(name, secret) {
			return true
		}
	}
	return false
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
	for _, name := range s.names {
		if strings.Contains(lower, strings.ToLower(name)) {
			return true
		}
	}
	return false
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
