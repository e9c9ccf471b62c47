package config

import (
	"cmp"
	"slices"
)

// Rule is the short name of what a Problem is about. Names are stable: scripts
// look for them.
type Rule string

// Severity says what a finding means for a start.
type Severity string

// The severities, the gravest first.
const (
	// Wrong keeps the sidecar from starting.
	Wrong Severity = "error"
	// Doubtful lets it start, and may hurt.
	Doubtful Severity = "warning"
	// Telling is worth knowing, and never fails anything.
	Telling Severity = "note"
)

// The rules. What is Wrong, start refuses.
const (
	RuleSyntax        Rule = "syntax"
	RuleUnknownKey    Rule = "unknown-key"
	RuleValue         Rule = "value"
	RuleReference     Rule = "reference"
	RuleConflict      Rule = "conflict"
	RuleBackend       Rule = "backend"
	RuleRequest       Rule = "request"
	RuleSchema        Rule = "schema"
	RuleSchemaKeyword Rule = "schema-keyword"
	RuleExpression    Rule = "expression"
	RuleArgument      Rule = "argument"

	RuleArgumentUndeclared Rule = "argument-undeclared"
	RuleArgumentOptional   Rule = "argument-optional"
	RuleArgumentUnsent     Rule = "argument-unsent"
	RuleOpenSchema         Rule = "open-schema"
	RuleExecutable         Rule = "executable"
	RuleDirectory          Rule = "directory"
	RulePrivateAddress     Rule = "private-address"
	RuleTLSUnverified      Rule = "tls-unverified"
	RuleCleartext          Rule = "cleartext"
	RuleLiteralSecret      Rule = "literal-secret"
	RuleExposed            Rule = "exposed"
	RuleWorkerAddress      Rule = "worker-address"
	RuleAlternative        Rule = "alternative"
	RuleVerify             Rule = "verify"
	RuleUnknownName        Rule = "unknown-name"
	RuleUnused             Rule = "unused"
	RuleDoubtful           Rule = "doubtful"
	RuleDescription        Rule = "description"
	RuleStrictMode         Rule = "strict-mode"
	RuleEffect             Rule = "effect"
	RuleDiscovery          Rule = "discovery"
	RuleUnmatched          Rule = "unmatched"

	RuleUndiscovered Rule = "undiscovered"
	RuleEffectUnsaid Rule = "effect-unsaid"
	RuleRejections   Rule = "rejections"
	RuleEffectKey    Rule = "effect-key"
	RulePolling      Rule = "polling"
	RuleObserve      Rule = "observe"
)

// RuleInfo says what a rule looks for.
type RuleInfo struct {
	Rule     Rule
	Severity Severity
	// Finds says it in a sentence, for people.
	Finds string
}

// Rules are all rules: errors, then warnings, then notes.
func Rules() []RuleInfo { return slices.Clone(rules) }

var rules = []RuleInfo{
	{RuleSyntax, Wrong, "The file cannot be read, or is not YAML. Nothing else can be looked at then."},
	{RuleUnknownKey, Wrong, "A key that there is not; the nearest one is named."},
	{RuleValue, Wrong, "A value that is missing, of the wrong type, out of range or malformed."},
	{RuleReference, Wrong, "A `${env:…}` or `${file:…}` that leads nowhere."},
	{RuleConflict, Wrong, "Keys that contradict each other, or name something that is not there."},
	{RuleBackend, Wrong, "A backend, or the store's TLS, that cannot be set up: a certificate that cannot be read, a header that cannot be sent."},
	{RuleRequest, Wrong, "The request of an http tool cannot be built: a path that climbs, a header that belongs to the connection."},
	{RuleSchema, Wrong, "A JSON Schema that does not compile."},
	{RuleSchemaKeyword, Wrong, "A misspelt keyword (`propertys`, `requird`, `minlength`): JSON Schema ignores it, so nothing would be checked. Other words of your own are fine."},
	{RuleExpression, Wrong, "A CEL expression, or a pattern of `recovery.rules`, that does not compile."},
	{RuleArgument, Wrong, "The path, query, headers, body or `verify` names an argument that the schema can never have, or `verify` leaves out one that must be there: no model can make that call right. Or `recovery.target` names one that it can never have."},

	{RuleArgumentUndeclared, Doubtful, "The request names an argument that the schema allows and does not mention: no model knows of it."},
	{RuleArgumentOptional, Doubtful, "The path needs an argument that the schema does not require: a call without it passes the schema and is refused after it."},
	{RuleArgumentUnsent, Doubtful, "The schema has an argument that the request sends nowhere."},
	{RuleOpenSchema, Doubtful, "A tool with an effect without `additionalProperties: false`: models and providers take its schema for open. Where it is (`forward_undeclared`, no argument named), a misspelt argument goes unnoticed, and the effect is another one."},
	{RuleExecutable, Doubtful, "A program that is not there, or cannot be run, on this machine."},
	{RuleDirectory, Doubtful, "A working directory, or the directory of the store or of a socket, that is not there on this machine."},
	{RulePrivateAddress, Doubtful, "A literal private address without `allow_private`, or a link-local one: every call is refused."},
	{RuleTLSUnverified, Doubtful, "`insecure_skip_verify`: anybody can be the other side."},
	{RuleCleartext, Doubtful, "A password of a Redis that is not on this machine, without `tls`: whoever is on the way reads it, and the records of calls."},
	{RuleLiteralSecret, Doubtful, "A password, token or key that is written in the file; `${env:NAME}` and `${file:/path}` keep it out."},
	{RuleExposed, Doubtful, "The config, a file of secrets or keys, the store, the journal, a program, or a directory above one of them, that other users may write, or read where it holds secrets; a socket in a directory where others may put one of theirs."},
	{RuleWorkerAddress, Doubtful, "A worker backend beside a tcp address: every user of the machine may register tools there, and be sent the calls of tools that others have registered."},
	{RuleAlternative, Doubtful, "`allowed_alternatives` names a tool with a stronger effect than the one that fails; models are not told of it."},
	{RuleVerify, Doubtful, "A verification that is never made, believes too early, or asks a tool with an effect."},
	{RuleUnknownName, Doubtful, "A name or glob that no tool has."},
	{RuleUnused, Doubtful, "A backend without tools, or a key that changes nothing."},
	{RuleDoubtful, Doubtful, "Something else that is allowed and rarely meant."},
	{RuleEffect, Doubtful, "With `--discover`: tools that count as `non_idempotent` because neither the file nor, where trusted, the server says otherwise."},
	{RuleDiscovery, Doubtful, "With `--discover`: a backend that cannot be asked for its tools, or has some that cannot be used."},
	{RuleUnmatched, Doubtful, "With `--discover`: an entry of `include`, `exclude`, `effects` or `tools` that no tool of the backend has."},
	{RuleDescription, Doubtful, "A tool without a description: the model has to guess."},
	{RuleStrictMode, Doubtful, "A schema keyword that the strict modes of providers drop. Sidecall enforces it all the same."},

	{RuleUndiscovered, Telling, "A name that only a discovered tool can have; `--discover` looks."},
	{RuleEffectUnsaid, Telling, "An mcp backend, a worker backend that says `trust_effects: false`, or a tool of one, about whose effects nothing is said: what it is not said of counts as `non_idempotent`. `--discover` names the tools."},
	{RuleRejections, Telling, "A `non_idempotent` http tool that says nothing of `rejects_before_work` and has no `verify`: a 503 leaves its outcome unknown, and few upstreams answer that after the work."},
	{RulePolling, Telling, "A `read_only` tool that by its name is asked until something changes, without `polling: true`: the loop guard takes that for a loop."},
	{RuleEffectKey, Telling, "A `non_idempotent` tool that requires what looks like a business id and has no `effect_key`: called again under a new id it does the same again. The line to add is in the message."},
	{RuleObserve, Telling, "A profile with `mode: observe`: its calls are only looked at. None is kept from happening twice, held for a person, or stopped in a loop."},
}

// Severity is that of the rule; of an unknown one, an error's.
func (r Rule) Severity() Severity {
	for _, info := range rules {
		if info.Rule == r {
			return info.Severity
		}
	}
	return Wrong
}

// Severity is what the problem means for a start.
func (p Problem) Severity() Severity { return p.Rule.Severity() }

// SortProblems sorts by position in the file, stably.
func SortProblems(list []Problem) {
	slices.SortStableFunc(list, byPosition)
}

func byPosition(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) }
