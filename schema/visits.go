package schema

import (
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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

// visits counts the pairs of schema and value that the library would look at,
// without looking at them: what repeats is counted once and multiplied.
type visits map[visit]int

type visit struct {
	schema *jsonschema.Schema
	value  uintptr
}

// tooMany reports whether checking v costs more than maxVisits.
func tooMany(root *jsonschema.Schema, v any) bool {
	return visits{}.count(root, v, unfolding{}) > maxVisits
}

func (m visits) count(s *jsonschema.Schema, v any, u unfolding) int {
	var key visit
	switch v := v.(type) {
	case map[string]any:
		key = visit{s, reflect.ValueOf(v).Pointer()}
	case []any:
		key = visit{s, reflect.ValueOf(v).Pointer()}
	default:
		return u.size(s, inPlaceSchemas)
	}
	if n, known := m[key]; known {
		return n
	}
	m[key] = 1 // a cycle in place: the library stops there too
	total := 1
	for _, e := range edges(s) {
		total = min(total+m.through(e, v, u), maxVisits+1)
	}
	m[key] = total
	return total
}

// through counts the visits behind one edge.
func (m visits) through(e edge, v any, u unfolding) int {
	total := 0
	switch v := v.(type) {
	case map[string]any:
		if e.slot == property {
			if child, ok := v[e.name]; ok {
				total += m.count(e.to, child, u)
			}
		}
		if e.slot == anyProperty {
			for _, child := range v {
				total += m.count(e.to, child, u)
			}
		}
	case []any:
		if e.slot == prefixItem && e.index < len(v) {
			total += m.count(e.to, v[e.index], u)
		}
		if e.slot == anyItem {
			for _, child := range v {
				total = min(total+m.count(e.to, child, u), maxVisits+1)
			}
		}
	}
	if e.slot == inPlace {
		total += m.count(e.to, v, u)
	}
	return total
}
