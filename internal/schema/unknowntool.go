package schema

import (
	"fmt"
	"slices"

	"github.com/sidecall/sidecall/internal/tool"
)

// UnknownTool is the answer to a call of a tool that does not exist. offered are
// those that the caller may call; at most 20 are listed, the likeliest first.
//
// It asks and never orders: nobody knows what the name that was made up was to
// do, and a model that is told to call refund calls it.
func UnknownTool(name string, offered []Offered) tool.Error {
	const listed = 20
	meant := Meant(name, offered, 3)
	var rest []string
	for _, o := range offered {
		if !slices.Contains(meant, o.Name) {
			rest = append(rest, o.Name)
		}
	}
	slices.Sort(rest)
	names := append(slices.Clone(meant), rest...)
	more := ""
	if len(names) > listed {
		more = fmt.Sprintf(" and %d more", len(names)-listed)
		names = names[:listed]
	}
	e := tool.Error{
		Code:       tool.CodeUnknownTool,
		Field:      "tool_name",
		Constraint: "must name a registered tool: " + compact(anys(names)) + more,
		Received:   shown(name, nil),
	}
	switch {
	case len(offered) == 0:
		e.Constraint = "must name a registered tool; there is none"
		e.Hint = "Go on without tools."
	case len(meant) == 0:
		e.Hint = "Choose from the listed tools only one that does what you want, or go on without it."
	default:
		e.Hint = didYouMean(meant[0]) + " Use it only if it does what you want; else go on without it."
	}
	return e
}
