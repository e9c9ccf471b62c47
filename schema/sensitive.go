package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Secret reports whether the value that path leads to, from the arguments down,
// is never shown: whether any name on the way is, or nearly is, that of a
// property that is sensitive (Options.Sensitive, writeOnly, format: password).
// Of a nil schema, and of one that cannot be compiled, everything is.
func (s *Schema) Secret(path ...string) bool {
	return s.Prepare() != nil || s.sensitive().covers(path)
}

// SecretTexts lists what in args is never shown, each scalar as text, so that
// it can be looked for elsewhere. Empty strings and nulls are not listed; the
// order is no particular one.
func (s *Schema) SecretTexts(args map[string]any) []string {
	if s.Prepare() != nil {
		return (&sensitiveness{all: true}).texts(args, true, nil)
	}
	secrets := s.sensitive()
	if !secrets.any() {
		return nil
	}
	return secrets.texts(args, secrets.all, nil)
}

// sensitiveness knows the property names whose values are never shown. It goes
// by name alone, wherever the name appears: a secret sent to the wrong place is
// still a secret. A name that is nearly one of them counts too, because a
// misspelt password is one.
type sensitiveness struct {
	names []string
	// all: the arguments as a whole are marked.
	all bool
}

func newSensitiveness(root *jsonschema.Schema, listed []string, ix *index) *sensitiveness {
	s := &sensitiveness{}
	found := map[string]bool{}
	for _, name := range listed {
		found[name] = true
	}
	type place struct {
		schema *jsonschema.Schema
		owner  string
	}
	seen := map[place]bool{}
	var walk func(sch *jsonschema.Schema, owner string)
	walk = func(sch *jsonschema.Schema, owner string) {
		if seen[place{sch, owner}] {
			return
		}
		seen[place{sch, owner}] = true
		if markedSecret(ix.source(sch)) {
			found[owner] = true
		}
		for _, e := range edges(sch) {
			next := owner
			if e.slot == property {
				next = e.name
			}
			walk(e.to, next)
		}
	}
	walk(root, "")
	s.all = found[""]
	delete(found, "")
	s.names = sortedNames(found)
	return s
}

// markedSecret reports whether a schema's author marked it so.
func markedSecret(source map[string]any) bool {
	return source["writeOnly"] == true || source["format"] == "password"
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
