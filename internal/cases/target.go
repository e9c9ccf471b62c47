package cases

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// target is a tool of the config, as far as a case has to know it.
type target struct {
	name, backend string
	// remote is the name that its backend has for it.
	remote string
	effect tool.Effect
	policy tool.Policy
	rules  config.CallRules
	http   *config.HTTPTool // nil of other backends
	schema []byte           // of its arguments; nil when only its server knows
}

// targets finds the tools of a config: those that it declares, and those that an
// mcp backend may have: they have its prefix, or the config says something of them.
type targets struct{ cfg *config.Config }

func (t targets) find(name string) (target, bool) {
	if made, ok := t.cfg.Tool(name); ok {
		declared := t.cfg.Tools[name]
		remote := name
		if declared.MCP != nil {
			remote = cmp.Or(declared.MCP.Name, name)
		}
		return target{
			name: name, backend: made.Backend, remote: remote, effect: made.Effect, policy: made.Policy,
			rules: declared.CallRules, http: declared.HTTP, schema: made.InputSchema,
		}, true
	}
	for _, backend := range slices.Sorted(maps.Keys(t.cfg.Backends)) {
		b := t.cfg.Backends[backend]
		remote, ok := strings.CutPrefix(name, b.Prefix)
		if !b.Discovers() || b.Worker != nil || !ok || remote == "" || b.Prefix == "" && !slices.Contains(named(b), remote) {
			continue // without a prefix any name could be its own, a misspelt one too
		}
		if as, offered := t.cfg.Discovered(backend, remote, nil); offered && as.Name == name {
			return target{name: name, backend: backend, remote: remote, effect: as.Effect, policy: as.Policy, rules: as.Rules}, true
		}
	}
	return target{}, false
}

// declared are the names of the tools that the file declares.
func (t targets) declared() []string { return slices.Sorted(maps.Keys(t.cfg.Tools)) }

// known are the names of all tools that the file speaks of.
func (t targets) known() []string {
	all := t.declared()
	for _, b := range t.cfg.Backends {
		for _, remote := range named(b) {
			all = append(all, b.Prefix+remote)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// named are the tools of an mcp backend, by their own names, of which the config says
// something.
func named(b config.Backend) []string {
	all := slices.Concat(slices.Collect(maps.Keys(b.Tools)), slices.Collect(maps.Keys(b.Effects)), b.Include)
	return slices.DeleteFunc(all, func(name string) bool { return strings.ContainsAny(name, "*?") })
}

// transport is how a backend is spoken to.
type transport int

const (
	overHTTP transport = iota
	mcpOverHTTP
	mcpOverStdio
	commands
)

func (t targets) transport(backend string) transport {
	switch b := t.cfg.Backends[backend]; {
	case b.HTTP != nil:
		return overHTTP
	case b.MCP != nil && len(b.MCP.Command) > 0:
		return mcpOverStdio
	case b.MCP != nil:
		return mcpOverHTTP
	default:
		return commands
	}
}

func (t transport) String() string {
	return [...]string{"an http backend", "an mcp server over HTTP", "an mcp server over stdin and stdout", "an exec backend"}[t]
}

// can reports whether a fault is one that the transport can have.
func (t transport) can(f fault) bool {
	k := kinds[f.kind]
	switch t {
	case overHTTP:
		return f.kind != toolError && (f.kind == "" || k.http)
	case mcpOverHTTP:
		return f.kind == "" || k.http && f.kind != partial && f.exit == 0
	case mcpOverStdio:
		return f.kind != "" && k.stdio && f.exit == 0
	case commands:
		return f.kind != "" && k.exec
	default:
		return false
	}
}

// sentAgain reports whether a call may be sent more than once by Sidecall, to a backend
// that is spoken to in this way.
func (t target) sentAgain(over transport) bool {
	statuses := over == overHTTP || over == mcpOverHTTP
	return t.effect.Repeatable() || statuses && len(t.policy.RejectsBeforeWork) > 0 ||
		slices.ContainsFunc(t.rules.Errors, func(r config.ErrorRule) bool { return r.NotExecuted })
}
