package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// judgedName is a name as propertyNames judges it.
type judgedName struct {
	by   *jsonschema.Schema
	name string
}

// judgedNames are the places of all members whose names some schema judges. They are
// found in one walk over the arguments, and not in one for each name.
type judgedNames struct {
	at map[judgedName][]location
	// told are the names whose findings were listed.
	told map[judgedName]bool
	// choices is how many branches of unions were known then, and walks how often
	// they were looked for.
	choices, walks int
}

// maxWalks bounds how often the arguments are walked through because more branches
// are known than before.
const maxWalks = 8

// misnamed finds the objects in which a name is not allowed. The library's location
// of this one error cannot be trusted: it shares memory with those of later errors.
// So each name is reported once, at all its places.
func (c *collector) misnamed(f finding, name string) []finding {
	key := judgedName{f.schema, name}
	places := c.judged().at[key]
	if len(places) == 0 {
		f.name = name
		f.at = f.at.child(name)
		return []finding{f}
	}
	if c.names.told[key] {
		return nil
	}
	c.names.told[key] = true
	out := make([]finding, 0, len(places))
	for _, at := range places {
		found := f
		found.at, found.name = at, name
		out = append(out, found)
	}
	return out
}

// judged looks for the names that are judged, as far as the branches that the
// findings are about are known.
func (c *collector) judged() *judgedNames {
	switch {
	case c.names == nil:
		c.names = &judgedNames{told: map[judgedName]bool{}}
	case c.names.choices == len(c.chosen), c.names.walks == maxWalks:
		return c.names
	}
	c.names.at, c.names.choices = map[judgedName][]location{}, len(c.chosen)
	c.names.walks++
	seen := map[choice]bool{}
	n := nodes{chosen: c.chosen, looks: c.looks}
	n.walk(c.ix.root, c.args, func(s *jsonschema.Schema, at location, v any) {
		obj, ok := v.(map[string]any)
		if !ok || s.PropertyNames == nil || seen[choice{s.PropertyNames, at.key()}] {
			return
		}
		seen[choice{s.PropertyNames, at.key()}] = true
		for name := range obj {
			key := judgedName{s.PropertyNames, name}
			if list := c.names.at[key]; len(list) < maxOfOne {
				c.names.at[key] = append(list, at.child(name))
			}
		}
	})
	return c.names
}
