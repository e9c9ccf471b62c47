package config

import (
	"maps"
	"slices"
)

// Names that belong to Sidecall itself.
const (
	builtinBackend = "sidecall"
	builtinTool    = "read_output"
)

// checker is a Config being checked.
type checker struct {
	*Config
	within

	used  map[string]bool // backends that some tool is on
	names names
}

func newChecker(c *Config, found *collector, discovered []string) *checker {
	k := &checker{Config: c, within: within{found: found, top: c.top()}, used: map[string]bool{}}
	k.names = names{declared: slices.Sorted(maps.Keys(c.Tools)), discovered: discovered, guesses: MaxProblems}
	for _, b := range c.Backends {
		k.names.discovers = k.names.discovers || discovered == nil && b.Discovers()
	}
	for _, t := range c.Tools {
		k.used[t.Backend] = true
	}
	return k
}

// noKey: whether an MCP server honours the key is known when it is there.
const noKey = "a tool of this file on an mcp backend cannot be keyed: say so in effects of the backend, where it counts once the server says that it honours the key"
