package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// explosive reports whether checking a value against s may take time out of all
// proportion to the value: it may when a recursive schema meets itself again by
// more ways than one, and when references multiply (see unfolding).
func explosive(root *jsonschema.Schema) bool {
	c := components{number: map[*jsonschema.Schema]int{}, low: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
	c.visit(root)
	return c.found || multiplies(root, c.number)
}

// components is Tarjan's search for strongly connected components, looking for
// one with more edges than a simple cycle has.
type components struct {
	number, low map[*jsonschema.Schema]int
	open        map[*jsonschema.Schema]bool
	stack       []*jsonschema.Schema
	found       bool
}

func (c *components) visit(s *jsonschema.Schema) {
	c.number[s] = len(c.number)
	c.low[s] = c.number[s]
	c.stack = append(c.stack, s)
	c.open[s] = true
	for _, e := range edges(s) {
		if _, seen := c.number[e.to]; !seen {
			c.visit(e.to)
			c.low[s] = min(c.low[s], c.low[e.to])
		} else if c.open[e.to] {
			c.low[s] = min(c.low[s], c.number[e.to])
		}
	}
	if c.low[s] != c.number[s] {
		return
	}
	inside := map[*jsonschema.Schema]bool{}
	for {
		top := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		c.open[top] = false
		inside[top] = true
		if top == s {
			break
		}
	}
	ways := 0
	for member := range inside {
		for _, e := range edges(member) {
			if inside[e.to] {
				ways++
			}
		}
	}
	c.found = c.found || ways > len(inside)
}
