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
	found *collector
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
	k := &checker{Config: c, found: found, used: map[string]bool{}, guesses: MaxProblems, discovered: discovered}
	for _, b := range c.Backends {
		k.discovers = k.discovers || discovered == nil && b.Discovers()
	}
	k.toolNames = slices.Sorted(maps.Keys(c.Tools))
	for _, t := range c.Tools {
		k.used[t.Backend] = true
	}
	return k
}

// bad notes a problem at the value that the path leads to.
func (k *checker) bad(message string, path ...string) {
	k.find(RuleConflict, message, path...)
}

// warn notes what is allowed and rarely meant; find has better names for most.
func (k *checker) warn(message string, path ...string) { k.find(RuleDoubtful, message, path...) }

// find notes what a rule has found at the value that the path leads to.
func (k *checker) find(rule Rule, message string, path ...string) {
	k.found.find(rule, k.source.where(path), "%s", message)
}

// written reports whether the file has a text there, be it one whose reference
// cannot be resolved.
func (k *checker) written(path ...string) bool {
	value, there := k.source.find(path)
	return there && value.node.Value != ""
}

// onlyIf reports keys that are written where they cannot act.
func (k *checker) onlyIf(allowed bool, reason string, at []string, written map[string]bool) {
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if written[key] && !allowed {
			k.bad(key+" "+reason, append(slices.Clone(at), key)...)
		}
	}
}

func (k *checker) retryOrder(r RetryRules, path ...string) {
	if r.Base != 0 && r.Max != 0 && r.Base > r.Max {
		k.bad("base is longer than max: expected base <= max", append(path, "base")...)
	}
}

// noKey: MCP has no place for an idempotency key that servers agree on. An
// http tool sends it in a header, an exec tool finds it in its environment.
const noKey = "an mcp tool cannot be keyed, as no idempotency key reaches it: expected read_only, idempotent or non_idempotent"
