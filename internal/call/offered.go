package call

import (
	"slices"

	"github.com/sidecall/sidecall/internal/rules"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/schema"
)

// offered are the tools that the profile of a call may call, as suggestions see them.
func offered(c *rules.Call) []schema.Offered {
	routes := c.Snapshot.Routes(c.Profile)
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
func noStronger(c *rules.Call, alternatives []string) []string {
	harmful := func(name string) bool {
		route, ok := c.Snapshot.Lookup(name)
		return ok && (schema.Stronger(route.Tool.Effect, c.Route.Tool.Effect) || !c.Profile.Allows(name))
	}
	if !slices.ContainsFunc(alternatives, harmful) {
		return alternatives
	}
	return slices.DeleteFunc(slices.Clone(alternatives), harmful)
}
