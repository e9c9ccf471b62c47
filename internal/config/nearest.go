package config

import (
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// Suggestion is the end of a message about an unknown name: the nearest of those
// that there are, else all when they are few.
func Suggestion(want string, have []string) string {
	if nearest := didYouMean(want, have); nearest != "" {
		return nearest
	}
	const few = 30
	if len(have) == 0 || len(have) > few {
		return ""
	}
	have = slices.Clone(have)
	slices.Sort(have)
	return "; known: " + strings.Join(have, ", ")
}

// instead is Suggestion, but for the keys that the usual files of MCP servers have.
func instead(key string, keys []string) string {
	switch mcp := slices.Contains(keys, "command"); {
	case mcp && key == "args":
		return "; write the arguments behind the program, in command"
	case mcp && (key == "transport" || key == "type"):
		return "; it follows from command or url"
	case key == "mcpServers":
		return `; a server is a backend here, {mcp: {command: [program, argument]}}, below "backends"`
	default:
		return Suggestion(key, keys)
	}
}

// didYouMean names the nearest of the values, if any is near.
func didYouMean(value string, among []string) string {
	if name := tool.Closest(value, among); name != "" {
		return "; did you mean " + quote(name) + "?"
	}
	return ""
}
