package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// noEffect is said of an effect_key where there is no effect.
const noEffect = "a read_only tool has no effect: remove effect_key, or say what repeating a call does under effect"

func (k *checker) tool(name string, t Tool, w within) {
	if name == builtinTool {
		w.bad("this name is that of a built-in tool: choose another")
	}
	k.rules(name, t.CallRules, w)
	t.sensitiveArgs(w)
	effect := t.EffectOrDefault()
	if t.Verify != nil && effect != tool.NonIdempotent {
		w.in("verify").find(RuleVerify, "only a non_idempotent call can be of unknown outcome: this is never asked")
	}
	if t.EffectKey != nil && effect == tool.ReadOnly {
		w.in("effect_key").bad(noEffect)
	}
	if effect == tool.ReadOnly {
		t.askedInVain(w)
	}
	if t.OnCancel != "" && effect == tool.ReadOnly {
		w.in("on_cancel").find(RuleUnused, "a read_only call always ends with its caller: this says nothing")
	}
	b, ok := k.Backends[t.Backend]
	switch {
	case t.Backend == "": // reported already
	case !ok:
		w.in("backend").bad("there is no backend " + quote(t.Backend) + Suggestion(t.Backend, slices.Collect(maps.Keys(k.Backends))))
	case b.HasOneKind():
		t.isOfKind(b.Kind(), w)
		t.keyed(b.Kind(), w)
	}
}

// isOfKind checks that the tool's block is that of its backend.
func (t Tool) isOfKind(kind string, w within) {
	if kind == "worker" {
		w.in("backend").bad("the workers of " + quote(t.Backend) + " declare their tools themselves: write what is to be otherwise under backends." + t.Backend + ".tools")
		return
	}
	blocks := t.blocks()
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[block] && block != kind {
			optional := ""
			if kind == "mcp" {
				optional = " or none"
			}
			w.in(block).bad("backend " + quote(t.Backend) + " is of kind " + kind + ": expected a block " + kind + optional + " here, found " + block)
			return
		}
	}
	if !blocks[kind] && kind != "mcp" {
		w.bad("backend " + quote(t.Backend) + " is of kind " + kind + ": expected a block " + kind + " that says how to call the tool")
	}
}

// blocks are the keys of a tool that are named as a kind of backend, each with whether it is there.
func (t Tool) blocks() map[string]bool {
	keys, v := shapeOf(reflect.TypeFor[Tool]()).byKey, reflect.ValueOf(t)
	found := map[string]bool{}
	for _, kind := range slices.Concat(shapeOf(reflect.TypeFor[Backend]()).groups...) {
		if block := keys[kind]; block != nil {
			found[kind] = !v.FieldByIndex(block.index).IsZero()
		}
	}
	return found
}

// keyed checks that the idempotency key has a way to the upstream.
func (t Tool) keyed(kind string, w within) {
	isKeyed := t.Effect != nil && *t.Effect == tool.Keyed
	switch {
	case isKeyed && kind == "mcp":
		w.in("effect").bad(noKey)
	case isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader == "":
		w.in("effect").bad("a keyed tool needs http.idempotency_header: add it with the name of the header in which the upstream takes the key, often Idempotency-Key")
	case !isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader != "" && t.EffectOrDefault() == tool.NonIdempotent && !t.Verify.readsKey():
		w.in("http", "idempotency_header").find(RuleUnused, "the key is sent, but the tool counts as non_idempotent and is not repeated; write effect: keyed when the upstream honours the key")
	}
}

// rules checks what declared and discovered tools have in common.
func (k *checker) rules(name string, r CallRules, w within) {
	k.verifier(name, r.VerifyWith, RuleVerify, w.in("verify_with"))
	if r.EffectKey != nil {
		k.effectKey(r.EffectKey, w.in("effect_key"))
	}
	if r.ApprovalTTL > k.Retention && k.Retention != 0 {
		w.in("approval_ttl").bad("approval_ttl is " + r.ApprovalTTL.String() + ", and a call is remembered for " + k.Retention.String() +
			": expected at most that, or a longer retention")
	}
	k.retried(r.Retry, w.in("retry"))
	if r.asks() && k.KeepArguments == "none" {
		w.warn("a person is asked before calls of this tool, and keep_arguments is none: whoever decides does not see what they would be sent with")
	}
	if r.Verify != nil {
		k.verify(name, r, w.in("verify"))
	}
	if r.CompensateWith != nil {
		k.compensation(name, r.CompensateWith, w.in("compensate_with", "tool"))
	}
	for i, rule := range r.Recovery.Rules {
		k.names.suggested(rule, w.in("recovery", "rules", index(i)))
	}
	for i, rule := range r.Errors {
		for j, other := range rule.AllowedAlternatives {
			k.names.known(other, w.in("errors", index(i), "allowed_alternatives", index(j)))
		}
	}
}

// retried checks a policy of which the rest stands under defaults.
func (k *checker) retried(r RetryRules, w within) {
	base, most := cmp.Or(r.Base, k.Defaults.Retry.Base), cmp.Or(r.Max, k.Defaults.Retry.Max)
	if written := (r.Base != 0) != (r.Max != 0); !written || base <= most {
		return // where both are written they were compared
	}
	key := "base"
	if r.Base == 0 {
		key = "max"
	}
	w.in(key).bad("base is " + base.String() + " and max " + most.String() + ", one of them that of defaults.retry: expected base <= max; write both")
}

// effectKey checks how long, and among whose calls, an effect is known. Whether the
// arguments are in the schema is known when that is compiled.
func (k *checker) effectKey(e *EffectKey, w within) {
	if e.Window > k.Retention && k.Retention != 0 {
		w.in("window").bad("window is " + e.Window.String() + ", and what was done is remembered for " + k.Retention.String() +
			": expected at most that, or a longer retention")
	}
	if e.Scope == scopeTenant && k.Store.Redis != nil && k.Store.Redis.Cluster {
		w.in("scope").bad("on a Redis Cluster the calls of a tenant lie on several servers, which cannot be asked in one step: expected conversation, or a Redis without cluster")
	}
}

// verifier checks the tool that tells what became of a call; rule says how grave it is
// when it is not read_only, or not there.
func (k *checker) verifier(name, verifier string, rule Rule, w within) {
	t, declared := k.Tools[verifier]
	switch {
	case verifier == "":
		return // reported already, or not asked for
	case verifier == name:
		w.bad("a tool cannot verify itself: expected the name of a read_only tool")
	case declared && t.EffectOrDefault() != tool.ReadOnly:
		w.find(rule, "the tool "+quote(verifier)+" is "+t.EffectOrDefault().String()+": expected a read_only tool")
	case !declared && rule.Severity() == Wrong && !k.names.discovers && !slices.Contains(k.names.discovered, verifier):
		w.find(rule, "there is no tool "+quote(verifier)+didYouMean(verifier, k.names.declared))
	case !declared:
		k.names.known(verifier, w)
	}
}

// verify checks a verification. What it asks is asked without a model between,
// so unlike verify_with the tool must be there, and be read_only.
func (k *checker) verify(name string, r CallRules, w within) {
	v := r.Verify
	k.verifier(name, v.Tool, RuleConflict, w.in("tool"))
	attempt := cmp.Or(r.AttemptTimeout, k.Defaults.AttemptTimeout)
	if v.NotRunAfter != 0 && v.NotRunAfter < attempt {
		w.in("not_run_after").find(RuleVerify, "not_run_after is shorter than the attempt_timeout of "+attempt.String()+": the call may still be under way when it is found not to have run")
	}
}

// compensation checks the tool that undoes what another one has done.
func (k *checker) compensation(name string, c *Compensation, w within) {
	t, declared := k.Tools[c.Tool]
	switch {
	case c.Tool == name:
		w.bad("a tool cannot undo itself: expected another tool")
	case declared && t.EffectOrDefault() == tool.ReadOnly:
		w.bad("the tool " + quote(c.Tool) + " is read_only, and undoes nothing: expected one with an effect")
	case k.Tools[name].Backend != "" && k.Tools[name].EffectOrDefault() == tool.ReadOnly:
		w.find(RuleUnused, "the tool is read_only: there is nothing to undo")
	default:
		k.names.known(c.Tool, w)
	}
}

// sensitiveArgs warns of names that the input schema does not mention: a slip
// there would show what should be hidden.
func (t Tool) sensitiveArgs(w within) {
	for i, arg := range t.SensitiveArgs {
		if t.InputSchema != nil && !strings.Contains(string(t.InputSchema), string(appendString(nil, arg))+":") {
			w.in("sensitive_args", index(i)).find(RuleUnknownName, "the input schema has no property "+quote(arg))
		}
	}
}
