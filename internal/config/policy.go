package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// anyObject is the input schema of a tool that declares none.
const anyObject = `{"type":"object"}`

// Tool returns the declared tool as the registry holds it, every default
// filled in; false when the file declares no such tool.
func (c *Config) Tool(name string) (tool.Tool, bool) {
	t, ok := c.Tools[name]
	if !ok {
		return tool.Tool{}, false
	}
	out := tool.Tool{
		Name:        name,
		Description: t.Description.Reveal(),
		InputSchema: json.RawMessage(anyObject),
		Effect:      t.EffectOrDefault(),
		Backend:     t.Backend,
		Annotations: maps.Clone(t.Annotations),
		Policy:      c.Policy(name),
	}
	if t.InputSchema != nil {
		out.InputSchema = json.RawMessage(t.InputSchema)
	}
	if t.OutputSchema != nil {
		out.OutputSchema = json.RawMessage(t.OutputSchema)
	}
	return out, true
}

// EffectOrDefault is the declared effect, else that of the HTTP method, else the most
// dangerous one.
func (t Tool) EffectOrDefault() tool.Effect {
	switch {
	case t.Effect != nil:
		return *t.Effect
	case t.HTTP != nil:
		return methodEffect(t.HTTP.Method)
	default:
		return tool.NonIdempotent
	}
}

// Policy returns the policy of a declared tool with defaults applied: the
// tool's own, else its backend's, else defaults. Of a name that is not
// declared, the defaults.
func (c *Config) Policy(toolName string) tool.Policy {
	t := c.Tools[toolName]
	trust := cmp.Or(t.Trust, c.Backends[t.Backend].Trust, Trusted)
	return c.policy(t.CallRules, trust)
}

// cancelWithCaller is the on_cancel of a tool that ends with its caller.
const cancelWithCaller = "cancel"

// policy fills in what the rules leave unsaid.
func (c *Config) policy(r CallRules, trust Trust) tool.Policy {
	retry := c.Defaults.Retry
	deadline := cmp.Or(r.Deadline, c.Defaults.Deadline)
	return tool.Policy{
		// An attempt cannot outlast the call.
		AttemptTimeout: min(cmp.Or(r.AttemptTimeout, c.Defaults.AttemptTimeout), deadline),
		Deadline:       deadline,
		Retry: tool.Retry{
			MaxAttempts: cmp.Or(r.Retry.MaxAttempts, retry.MaxAttempts),
			Base:        cmp.Or(r.Retry.Base, retry.Base),
			Multiplier:  cmp.Or(r.Retry.Multiplier, retry.Multiplier),
			Max:         cmp.Or(r.Retry.Max, retry.Max),
		},
		RejectsBeforeWork: rejectsBeforeWork(r.RejectsBeforeWork),
		FailsCleanly:      r.FailsCleanly,
		MaxOutputChars:    cmp.Or(r.MaxOutputChars, c.Defaults.MaxOutputChars),
		OutputStrategy:    cmp.Or(r.Output, c.Defaults.Output),
		Untrusted:         trust == Untrusted,
		Sequential:        r.Sequential,
		CancelWithCaller:  r.OnCancel == cancelWithCaller,
		Coerce:            r.Coerce,
		ForwardUndeclared: r.ForwardUndeclared,
		VerifyWith:        r.verifyWith(),
		EffectKey:         r.EffectKey.inForce(c.Retention),
		ApprovalTTL:       r.approvalTTL(c.Retention),
		ConfirmAfter:      r.ConfirmAfter,
		Polling:           r.Polling,
		RefuseTainted:     r.Sensitive,
		Sensitive:         slices.Clone(r.SensitiveArgs),
		MaxInFlight:       r.MaxInFlight,
	}
}

// defaultApprovalTTL is how long a person's word is waited for where nothing is said.
const defaultApprovalTTL = time.Hour

// approvalTTL is how long a person's word is waited for; 0 where nobody is asked.
func (r CallRules) approvalTTL(retention time.Duration) time.Duration {
	if !r.asks() {
		return 0
	}
	return cmp.Or(r.ApprovalTTL, min(defaultApprovalTTL, retention))
}

// rejectsBeforeWork are the statuses that prove that nothing was done: 429, unless
// something was said, even if that is that none does.
func rejectsBeforeWork(said []int) []int {
	if said == nil {
		return []int{http.StatusTooManyRequests}
	}
	return slices.Clone(said)
}

// inForce says which calls have the same effect; none without a key.
func (e *EffectKey) inForce(retention time.Duration) tool.EffectKey {
	if e == nil {
		return tool.EffectKey{}
	}
	return tool.EffectKey{
		Args: slices.Clone(e.Args), WholeTenant: e.Scope == scopeTenant, Window: cmp.Or(e.Window, retention),
	}
}

// HasSensitive reports that some tool, declared or to be discovered, is sensitive.
func (c *Config) HasSensitive() bool {
	for _, t := range c.Tools {
		if t.Sensitive {
			return true
		}
	}
	for _, b := range c.Backends {
		for _, o := range b.Tools {
			if o.Sensitive {
				return true
			}
		}
	}
	return false
}

// verifyWith names the tool that can tell what became of a call.
func (r CallRules) verifyWith() string {
	if r.VerifyWith == "" && r.Verify != nil {
		return r.Verify.Tool
	}
	return r.VerifyWith
}

// Discovered is how a tool that a backend found is registered.
type Discovered struct {
	// Name is what the model calls: prefix and name, made to fit the rules of
	// tool names.
	Name string
	// Description replaces the backend's own when not empty.
	Description string
	Effect      tool.Effect
	Policy      tool.Policy
	// Rules holds the error mapping of the override, if any.
	Rules CallRules
}

// Discovered says how the tool that the backend calls toolName is registered,
// one of an mcp server untrusted unless the file says otherwise; false when include and exclude
// leave it out. claimed is the effect that the backend claims, nil for none: it
// counts only where the operator trusts the backend's annotations.
func (c *Config) Discovered(backend, toolName string, claimed *tool.Effect) (Discovered, bool) {
	b := c.Backends[backend]
	if b.Include != nil && !anyGlob(b.Include, toolName) || anyGlob(b.Exclude, toolName) {
		return Discovered{}, false
	}
	o := b.Tools[toolName]
	return Discovered{
		Name:        fitName(b.Prefix + toolName),
		Description: o.Description.Reveal(),
		Effect:      b.discoveredEffect(toolName, claimed),
		Policy:      c.policy(o.CallRules, cmp.Or(o.Trust, b.Trust, b.trustUnsaid())),
		Rules:       o.CallRules,
	}, true
}

// discoveredEffect asks the override, effects by name, the claim where it is
// trusted, and effects for the rest, in this order.
func (b Backend) discoveredEffect(name string, claimed *tool.Effect) tool.Effect {
	if o := b.Tools[name].Effect; o != nil {
		return *o
	}
	if effect, ok := b.Effects[name]; ok {
		return effect
	}
	if claimed != nil && b.trustsClaims() {
		return *claimed
	}
	if effect, ok := b.Effects["*"]; ok {
		return effect
	}
	return tool.NonIdempotent
}

// saysReadOnly reports whether the file has a discovered tool read_only, whatever its
// server claims.
func (b Backend) saysReadOnly(name string) bool {
	most := tool.NonIdempotent
	return b.discoveredEffect(name, nil) == tool.ReadOnly && b.discoveredEffect(name, &most) == tool.ReadOnly
}

// SaysEffect reports whether anybody whose word counts says what repeating a
// discovered tool does; claimed says that its server does.
func (b Backend) SaysEffect(name string, claimed bool) bool {
	_, one := b.Effects[name]
	_, rest := b.Effects["*"]
	return one || rest || b.Tools[name].Effect != nil || claimed && b.trustsClaims()
}

// Entry is something that the file says of tools that a backend discovers: the
// name or glob, and the keys that lead to it from the backend.
type Entry struct {
	Name string
	Path []string
}

// Unmatched lists what the file says of tools that are not among names, those
// that a backend was found to have.
func (b Backend) Unmatched(names []string) []Entry {
	var out []Entry
	for key, globs := range map[string][]string{"include": b.Include, "exclude": b.Exclude} {
		for i, glob := range globs {
			if !slices.ContainsFunc(names, func(name string) bool { return matchGlob(glob, name) }) {
				out = append(out, Entry{glob, []string{key, index(i)}})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Effects)) {
		if name != "*" && !slices.Contains(names, name) {
			out = append(out, Entry{name, []string{"effects", name}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Tools)) {
		if !slices.Contains(names, name) {
			out = append(out, Entry{name, []string{"tools", name}})
		}
	}
	return out
}

// Mentioned are the names, as models see them, of the tools of a backend of which the
// file says something by name.
func (b Backend) Mentioned() []string {
	names := slices.Concat(b.Include, slices.Collect(maps.Keys(b.Effects)), slices.Collect(maps.Keys(b.Tools)))
	names = slices.DeleteFunc(names, func(name string) bool { return strings.ContainsAny(name, "*?") })
	for i, name := range names {
		names[i] = fitName(b.Prefix + name)
	}
	return names
}

// fitName turns any name into one that every provider accepts: other
// characters become _, and a long name keeps its start and a hash of the whole.
// Two names may become one; the registry reports that as any collision.
func fitName(name string) string {
	const longest = 64
	fit := []byte(name)
	for i, b := range fit {
		if !isNameByte(b) {
			fit[i] = '_'
		}
	}
	if len(fit) <= longest {
		return string(fit)
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4])
	return string(fit[:longest-len(tail)]) + tail
}

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// Profile returns the profile of a request: the declared one, else the built-in
// one of that name; the default profile for the empty name. False when it is not
// offered. A file that declares profiles offers those, and default_profile: of the
// built-in ones each has every tool, so that a caller could leave a narrow one by
// naming another.
func (c *Config) Profile(name string) (Profile, bool) {
	name = cmp.Or(name, c.DefaultProfile)
	if p, ok := c.Profiles[name]; ok {
		return p, true
	}
	p, ok := builtinProfiles[name]
	p.Tools = slices.Clone(p.Tools)
	return p, ok && (len(c.Profiles) == 0 || name == c.DefaultProfile)
}

// ProfileNames lists the profiles that are offered, sorted.
func (c *Config) ProfileNames() []string {
	return slices.DeleteFunc(c.Profiles.known(), func(name string) bool {
		_, offered := c.Profile(name)
		return !offered
	})
}

// known lists the profiles, declared and built in, sorted.
func (p Profiles) known() []string {
	all := maps.Clone(builtinProfiles)
	maps.Copy(all, p)
	return slices.Sorted(maps.Keys(all))
}
