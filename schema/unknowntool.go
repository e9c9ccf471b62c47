package schema

import (
	"fmt"
	"slices"

	"github.com/sidecall/sidecall/tool"
)

// UnknownTool is the answer to a call of a tool that does not exist. tools are
// those that the caller may call; at most 20 are listed, the nearest first.
func UnknownTool(name string, tools []string) tool.Error {
	const listed = 20
	near := Nearest(name, tools, 3)
	rest := slices.DeleteFunc(slices.Sorted(slices.Values(tools)), func(t string) bool { return slices.Contains(near, t) })
	shownTools := append(slices.Clone(near), rest...)
	more := ""
	if len(shownTools) > listed {
		more = fmt.Sprintf(" and %d more", len(shownTools)-listed)
		shownTools = shownTools[:listed]
	}
	e := tool.Error{
		Code:       tool.CodeUnknownTool,
		Field:      "tool_name",
		Constraint: "must name a registered tool: " + compact(anys(shownTools)) + more,
		Received:   shown(name, nil),
	}
	switch {
	case len(tools) == 0:
		e.Constraint = "must name a registered tool; there is none"
		e.Hint = "Go on without tools."
	case len(near) == 0:
		e.Hint = "Call one of the listed tools instead."
	default:
		e.Hint = didYouMean(near[0]) + " Call " + near[0] + " instead."
	}
	return e
}
