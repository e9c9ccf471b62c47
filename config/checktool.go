package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/tool"
)

// noEffect is said of an effect_key where there is no effect.
const noEffect = "a read_only tool has no effect: remove effect_key, or say what repeating a call does under effect"

func (k *checker) tool(name string, t Tool) {
	at := []string{"tools", name}
	if name == builtinTool {
		k.bad("this name is that of a built-in tool: choose another", at...)
	}
	k.rules(name, t.CallRules, at)
	k.sensitiveArgs(t, at)
	if t.Verify != nil && t.EffectOrDefault() != tool.NonIdempotent {
		k.find(RuleVerify, "only a non_idempotent call can be of unknown outcome: this is never asked", append(slices.Clone(at), "verify")...)
	}
	if t.EffectKey != nil && t.EffectOrDefault() == tool.ReadOnly {
		k.bad(noEffect, append(slices.Clone(at), "effect_key")...)
	}
	if t.OnCancel != "" && t.EffectOrDefault() == tool.ReadOnly {
		k.find(RuleUnused, "a read_only call always ends with its caller: this says nothing", append(slices.Clone(at), "on_cancel")...)
	}
	b, ok := k.Backends[t.Backend]
	switch {
	case t.Backend == "":
		return // reported already
	case !ok:
		names := slices.Collect(maps.Keys(k.Backends))
		k.bad("there is no backend "+quote(t.Backend)+suggestion(t.Backend, names), append(at, "backend")...)
		return
	}
	if b.HasOneKind() {
		k.kind(t, b.Kind(), at)
		k.keyed(t, b.Kind(), at)
	}
}

// kind checks that the tool's block is that of its backend.
func (k *checker) kind(t Tool, kind string, at []string) {
	if kind == "worker" {
		k.bad("the workers of "+quote(t.Backend)+" declare their tools themselves: write what is to be otherwise under backends."+t.Backend+".tools", append(at, "backend")...)
		return
	}
	blocks := map[string]bool{"http": t.HTTP != nil, "exec": t.Exec != nil, "mcp": t.MCP != nil}
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[block] && block != kind {
			optional := ""
			if kind == "mcp" {
				optional = " or none"
			}
			k.bad("backend "+quote(t.Backend)+" is of kind "+kind+": expected a block "+kind+optional+" here, found "+block, append(at, block)...)
			return
		}
	}
	if !blocks[kind] && kind != "mcp" {
		k.bad("backend "+quote(t.Backend)+" is of kind "+kind+": expected a block "+kind+" that says how to call the tool", at...)
	}
}

// keyed checks that the idempotency key has a way to the upstream.
func (k *checker) keyed(t Tool, kind string, at []string) {
	isKeyed := t.Effect != nil && *t.Effect == tool.Keyed
	switch {
	case isKeyed && kind == "mcp":
		k.bad(noKey, append(at, "effect")...)
	case isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader == "":
		k.bad("a keyed tool needs http.idempotency_header: add it with the name of the header in which the upstream takes the key, often Idempotency-Key", append(at, "effect")...)
	case !isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader != "" && t.EffectOrDefault() == tool.NonIdempotent && !t.Verify.readsKey():
		k.find(RuleUnused, "the key is sent, but the tool counts as non_idempotent and is not repeated; write effect: keyed when the upstream honours the key", append(at, "http", "idempotency_header")...)
	}
}

// rules checks what declared and discovered tools have in common.
func (k *checker) rules(name string, r CallRules, at []string) {
	k.retryOrder(r.Retry, append(slices.Clone(at), "retry")...)
	if r.AttemptTimeout > r.Deadline && r.Deadline != 0 {
		k.warn("attempt_timeout is longer than the deadline of the whole call, which ends the attempt", append(at, "attempt_timeout")...)
	}
	if r.VerifyWith != "" {
		k.verifier(name, r.VerifyWith, append(at, "verify_with"))
	}
	if r.EffectKey != nil {
		k.effectKey(r.EffectKey, append(slices.Clone(at), "effect_key"))
	}
	if r.Verify != nil {
		k.verify(name, r, append(slices.Clone(at), "verify"))
	}
	k.recovery(r.Recovery, append(slices.Clone(at), "recovery"))
	for i, rule := range r.Errors {
		for j, other := range rule.AllowedAlternatives {
			k.known(other, append(at, "errors", index(i), "allowed_alternatives", index(j)))
		}
	}
}

// effectKey checks what makes calls the same. Whether the arguments are in the schema
// is known when that is compiled.
func (k *checker) effectKey(e *EffectKey, at []string) {
	under := func(keys ...string) []string { return append(slices.Clone(at), keys...) }
	for i, name := range e.Args {
		if slices.Contains(e.Args[:i], name) {
			k.bad("the argument "+quote(name)+" is named twice", under("args", index(i))...)
		}
	}
	if e.Window > k.Retention && k.Retention != 0 {
		k.bad("window is "+e.Window.String()+", and what was done is remembered for "+k.Retention.String()+
			": expected at most that, or a longer retention", under("window")...)
	}
	if e.Scope == scopeTenant && k.Store.Redis != nil && k.Store.Redis.Cluster {
		k.bad("on a Redis Cluster the calls of a tenant lie on several servers, which cannot be asked in one step: expected conversation, or a Redis without cluster", under("scope")...)
	}
}

func (k *checker) verifier(name, verifier string, at []string) {
	t, declared := k.Tools[verifier]
	switch {
	case verifier == name:
		k.bad("a tool cannot verify itself: expected the name of a read-only tool", at...)
	case declared && t.EffectOrDefault() != tool.ReadOnly:
		k.find(RuleVerify, "the tool "+quote(verifier)+" is "+t.EffectOrDefault().String()+"; to verify is safe with a read_only tool only", at...)
	case !declared:
		k.known(verifier, at)
	}
}

// verify checks a verification. What it asks is asked without a model between,
// so unlike verify_with the tool must be there, and be read_only.
func (k *checker) verify(name string, r CallRules, at []string) {
	v := r.Verify
	under := func(key string) []string { return append(slices.Clone(at), key) }
	k.verifyTool(name, v.Tool, under("tool"))
	if v.DoneWhen == "" && v.NotRunWhen == "" {
		k.bad("it can never decide: expected done_when, not_run_when, or both", at...)
		return
	}
	k.onlyIf(v.DoneWhen != "", "acts with done_when only", at, map[string]bool{"result": v.Result != ""})
	k.onlyIf(v.NotRunWhen != "", "acts with not_run_when only", at, map[string]bool{"not_run_after": v.NotRunAfter != 0})
	attempt := cmp.Or(r.AttemptTimeout, k.Defaults.AttemptTimeout)
	if v.NotRunAfter != 0 && v.NotRunAfter < attempt {
		k.find(RuleVerify, "not_run_after is shorter than the attempt_timeout of "+attempt.String()+": the call may still be under way when it is found not to have run", under("not_run_after")...)
	}
}

// verifyTool checks the tool that a verification asks.
func (k *checker) verifyTool(name, verifier string, at []string) {
	t, declared := k.Tools[verifier]
	switch {
	case verifier == "":
		return // reported already
	case verifier == name:
		k.bad("a tool cannot verify itself: expected the name of a read_only tool", at...)
	case declared && t.EffectOrDefault() != tool.ReadOnly:
		k.bad("the tool "+quote(verifier)+" is "+t.EffectOrDefault().String()+": expected a read_only tool", at...)
	case !declared && !k.discovers && !slices.Contains(k.discovered, verifier):
		k.bad("there is no tool "+quote(verifier)+didYouMean(verifier, k.toolNames), at...)
	case !declared:
		k.known(verifier, at)
	}
}

// known warns of a name that no tool of the file has.
func (k *checker) known(name string, at []string) {
	if _, ok := k.Tools[name]; ok || name == builtinTool || slices.Contains(k.discovered, name) {
		return
	}
	if k.discovers {
		k.find(RuleUndiscovered, "no tool of this file is called "+quote(name)+"; it has to be a discovered one", at...)
		return
	}
	guess := ""
	if k.guesses--; k.guesses >= 0 {
		guess = didYouMean(name, slices.Concat(k.toolNames, k.discovered))
	}
	k.find(RuleUnknownName, "there is no tool "+quote(name)+guess, at...)
}

// sensitiveArgs warns of names that the input schema does not mention: a slip
// there would show what should be hidden.
func (k *checker) sensitiveArgs(t Tool, at []string) {
	for i, arg := range t.SensitiveArgs {
		if t.InputSchema != nil && !strings.Contains(string(t.InputSchema), string(appendString(nil, arg))+":") {
			k.find(RuleUnknownName, "the input schema has no property "+quote(arg), append(at, "sensitive_args", index(i))...)
		}
	}
}
