package config

import (
	"strconv"

	"go.yaml.in/yaml/v4"
)

// Where returns the place of the value that the path leads to, a list item by
// its decimal index, with an empty Message for the caller to fill in: for what
// later stages find wrong with a schema or an expression. A path that leaves
// the file, for instance into a default, gives the deepest place that exists.
func (c *Config) Where(path ...string) Problem {
	return c.source.find(path).at().problem(c.source.file, "")
}

// WhereKey is Where, but the place of the key in front of the value.
func (c *Config) WhereKey(path ...string) Problem {
	return c.source.find(path).atKey().problem(c.source.file, "")
}

// Release lets go of the parsed text, which is most of what a large Config
// holds. Where then knows the file and the path, no line. Not safe for use
// together with Where.
func (c *Config) Release() { c.source.root = &yaml.Node{} }

// find walks the keys as far as they go; the path stays the one asked for.
func (s *source) find(keys []string) spot {
	here := spot{node: s.root}
	lost := false
	for _, key := range keys {
		var next spot
		if !lost {
			next, lost = step(here.node, key)
		}
		here.path = here.path.child(key)
		if lost {
			continue
		}
		if next.key == nil {
			here.path = here.path.up.item(next.path.index)
		}
		here.key, here.node = next.key, next.node
	}
	return here
}

// step goes one key or index down; lost when there is no such thing.
func step(n *yaml.Node, key string) (next spot, lost bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return spot{key: n.Content[i], node: n.Content[i+1]}, false
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return spot{path: (*path)(nil).item(i), node: n.Content[i]}, false
		}
	}
	return spot{}, true
}
