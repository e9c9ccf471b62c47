package config

import (
	"strconv"

	"go.yaml.in/yaml/v4"
)

// source is the parsed text, for positions.
type source struct {
	file string
	root *yaml.Node
	dir  string
	// fingerprint is empty of a config that no Watch has read.
	fingerprint string
}

// Where returns the place of the value that the path leads to, a list item by
// its decimal index, with an empty Message for the caller to fill in: for what
// later stages find wrong with a schema or an expression. A path that leaves
// the file, for instance into a default, gives the deepest place that exists.
func (c *Config) Where(path ...string) Problem { return c.source.where(path) }

// WhereKey is Where, but the place of the key in front of the value.
func (c *Config) WhereKey(path ...string) Problem {
	here, _ := c.source.find(path)
	p := here.atKey()
	p.File = c.source.file
	return p
}

// Release lets go of the parsed text, which is most of what a large Config
// holds. Where then knows the file and the path, no line. Not safe for use
// together with Where.
func (c *Config) Release() { c.source.root = &yaml.Node{} }

func (s *source) where(path []string) Problem {
	here, _ := s.find(path)
	p := here.at()
	p.File = s.file
	return p
}

func (s *source) find(path []string) (here spot, there bool) { return spot{node: s.root}.down(path) }

// down walks the keys as far as they go, and says whether all of them are there; the
// path stays the one asked for.
func (s spot) down(keys []string) (here spot, there bool) {
	here, there = s, true
	for _, key := range keys {
		var next spot
		if there {
			next, there = here.step(key)
		}
		if !there {
			next = here
			next.path = here.path.child(key)
		}
		here = next
	}
	return here, there
}

// step goes one key or index down; false when there is no such thing.
func (s spot) step(key string) (spot, bool) {
	content := s.node.Content
	switch s.node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(content); i += 2 {
			if content[i].Value == key {
				return spot{s.path.child(key), content[i], content[i+1]}, true
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(content) {
			return spot{path: s.path.item(i), node: content[i]}, true
		}
	}
	return spot{}, false
}
