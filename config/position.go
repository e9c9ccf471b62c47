package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/tool"
)

// position is a place in the file and in its structure.
type position struct {
	line, column int
	path         *path
}

func (p position) problem(file, message string) Problem {
	return Problem{File: file, Line: p.line, Column: p.column, Path: p.path.String(), Message: message}
}

// path leads from the root of the file to a value. Links instead of strings:
// nothing is rendered as long as nothing is wrong.
type path struct {
	up    *path
	key   string
	index int // of a list item; -1 for a key
}

func (p *path) child(key string) *path { return &path{up: p, key: key, index: -1} }

func (p *path) item(i int) *path { return &path{up: p, index: i} }

// plainKey needs no quotes in a path.
var plainKey = regexp.MustCompile(`^[a-zA-Z0-9_*-]+$`)

// String renders the path as tools.get_order.errors[0].code; keys that hold
// other characters are quoted: headers["X.Y"].
func (p *path) String() string {
	if p == nil {
		return ""
	}
	var steps []*path
	for ; p != nil; p = p.up {
		steps = append(steps, p)
	}
	var b strings.Builder
	for _, step := range slices.Backward(steps) {
		switch step := step; {
		case step.index >= 0:
			b.WriteString("[" + strconv.Itoa(step.index) + "]")
		case !plainKey.MatchString(step.key):
			b.WriteString("[" + strconv.Quote(shorten(step.key)) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(shorten(step.key))
		}
	}
	return b.String()
}

// place is the position of a node whose path does not matter.
func place(n *yaml.Node) position { return position{line: n.Line, column: n.Column} }

// spot is a value in the file together with how it was reached.
type spot struct {
	path *path
	key  *yaml.Node // the key in front of the value; nil for list items
	node *yaml.Node
}

// at is where a message about the value points: at the value, but at the key
// when the value is a block below it.
func (s spot) at() position {
	n := s.node
	block := n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0
	empty := n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0
	if s.key != nil && (block || empty) {
		n = s.key
	}
	return position{line: n.Line, column: n.Column, path: s.path}
}

// atKey points at the key in front of the value.
func (s spot) atKey() position {
	n := s.key
	if n == nil {
		n = s.node
	}
	return position{line: n.Line, column: n.Column, path: s.path}
}

// Where returns the place of the value that the path leads to, a list item by
// its decimal index, with an empty Message for the caller to fill in: for what
// later stages find wrong with a schema or an expression. A path that leaves
// the file, for instance into a default, gives the deepest place that exists.
func (c *Config) Where(path ...string) Problem {
	return c.source.find(path).at().problem(c.source.file, "")
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

// shorten keeps the text of a message readable.
func shorten(s string) string { return tool.Shorten(s, 60) }

// index is a list index as a step of a path.
func index(i int) string { return strconv.Itoa(i) }
