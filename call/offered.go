package call

import (
	"slices"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/schema"
)

// offered are the tools that the call's profile may call, as suggestions see them.
func (c *call) offered() []schema.Offered {
	routes := c.snapshot.Routes(c.of.Profile)
	offered := make([]schema.Offered, len(routes))
	for i, route := range routes {
		offered[i] = offer(route)
	}
	return offered
}

func offer(route *catalog.Route) schema.Offered {
	return schema.Offered{Name: route.Tool.Name, Effect: route.Tool.Effect}
}

// noStronger leaves out of what may be called instead the tools with a stronger
// effect than the one that failed, and those that the profile may not call: who
// could not look something up must not be told to pay. What nobody knows yet may
// still be discovered.
func (c *call) noStronger(alternatives []string) []string {
	harmful := func(name string) bool {
		route, ok := c.snapshot.Lookup(name)
		return ok && (schema.Stronger(route.Tool.Effect, c.effect()) || !c.of.Profile.Allows(name))
	}
	if !slices.ContainsFunc(alternatives, harmful) {
		return alternatives
	}
	return slices.DeleteFunc(slices.Clone(alternatives), harmful)
}
