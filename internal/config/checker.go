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
	// discovers: some backend finds its tools at run time, so names that the
	// file does not declare may exist.
	discovers  bool
	discovered []string        // the names of those tools, once they are known
	used       map[string]bool // backends that some tool is on
	toolNames  []string
	// guesses is how many more times the nearest tool name is looked for: each
	// time costs a look at every tool, and only so many messages are shown.
	guesses int
}

func newChecker(c *Config, found *collector, discovered []string) *checker {
	k := &checker{Config: c, within: within{found: found, top: spot{node: c.source.root}}, used: map[string]bool{}, guesses: MaxProblems, discovered: discovered}
	for _, b := range c.Backends {
		k.discovers = k.discovers || discovered == nil && b.Discovers()
	}
	k.toolNames = slices.Sorted(maps.Keys(c.Tools))
	for _, t := range c.Tools {
		k.used[t.Backend] = true
	}
	return k
}

// noKey: whether an MCP server honours the key is known when it is there.
const noKey = "a tool of this file on an mcp backend cannot be keyed: say so in effects of the backend, where it counts once the server says that it honours the key"
