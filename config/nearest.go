package config

import (
	"slices"
	"strings"

	"github.com/sidecall/sidecall/tool"
)

// suggestion is the end of a message about an unknown name: the nearest one,
// else all when they are few.
func suggestion(want string, have []string) string {
	if name := tool.Closest(want, have); name != "" {
		return "; did you mean " + quote(name) + "?"
	}
	const few = 30
	if len(have) == 0 || len(have) > few {
		return ""
	}
	have = slices.Clone(have)
	slices.Sort(have)
	return "; known: " + strings.Join(have, ", ")
}
