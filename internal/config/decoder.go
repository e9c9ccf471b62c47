package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder fills a Config from a tree of nodes by the shapes of its types. It
// never stops at a problem: what is wrong keeps its zero value, and the checks
// that follow make no second problem of that.
type decoder struct {
	env   Environment
	dir   string // where relative paths are seen from
	found *collector
}

// isMapping reports whether the value is a mapping; nothing counts as an empty
// one, as in "tools:" with every line below it commented out.
func (d *decoder) isMapping(s spot, keys []string) bool {
	if s.node.Kind == yaml.MappingNode || isNull(s.node) {
		return true
	}
	which := ""
	if keys != nil {
		which = " with the keys " + strings.Join(keys, ", ")
	}
	d.found.add(s.at(), "expected a mapping%s, found %s", which, describe(s.node))
	return false
}

// pairs calls visit for each key of a mapping, the first of each name only.
func (d *decoder) pairs(s spot, visit func(key string, at spot)) {
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		key := s.node.Content[i]
		at := spot{path: s.path.child(key.Value), key: key, node: s.node.Content[i+1]}
		if !isKey(key) {
			d.found.add(spot{path: s.path, node: key}.at(), "expected a string as a key, found %s%s", describe(key), inQuotes(key))
			continue
		}
		if first := seen[key.Value]; first != nil {
			d.found.add(at.atKey(), "the key %s is already at line %d, column %d", quote(key.Value), first.Line, first.Column)
			continue
		}
		seen[key.Value] = key
		visit(key.Value, at)
	}
}

// isKey reports whether the node can be a key: a string, or a number, which needs
// no quotes (exit_codes: {1: ...}).
func isKey(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	tag := n.ShortTag()
	return isString(n) || tag == "!!int" || tag == "!!float"
}

// inQuotes says how a key that YAML takes for something else becomes a string.
func inQuotes(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode && key.Style&yaml.TaggedStyle == 0 && !isNull(key) {
		return ": put it in quotes"
	}
	return ""
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
