package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

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

// place is where a node is whose path does not matter.
func place(n *yaml.Node) Problem { return spot{node: n}.at() }

// spot is a value in the file together with how it was reached.
type spot struct {
	path *path
	key  *yaml.Node // the key in front of the value; nil for list items
	node *yaml.Node
	wide *sync.Map // see step; nil is none
}

// at is where a message about the value points: at the value, but at the key
// when the value is a block below it.
func (s spot) at() Problem {
	n := s.node
	block := n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0
	empty := n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0
	if block || empty {
		return s.atKey()
	}
	return Problem{Line: n.Line, Column: n.Column, Path: s.path.String()}
}

// atKey points at the key in front of the value.
func (s spot) atKey() Problem {
	n := cmp.Or(s.key, s.node)
	return Problem{Line: n.Line, Column: n.Column, Path: s.path.String()}
}
