package config

import (
	"cmp"
	"slices"
)

// RecoveryDefaults say what failed calls are told of what was tried before them.
type RecoveryDefaults struct {
	Context  string        `yaml:"context" doc:"Whether a failed call's response has recovery.context: what was tried before in this conversation, and what was not yet. See recovery.md." enum:"on|off" default:"on"`
	MaxChars int           `yaml:"max_chars" doc:"The most characters that it has. Near the end of a prompt's tokens it has less: a twentieth of what is left." min:"200" max:"20000" default:"1500"`
	Rules    []GeneralRule `yaml:"rules" doc:"What to suggest, before what is built in."`
}

// RecoveryRules are what a tool says of it itself.
type RecoveryRules struct {
	Context  string         `yaml:"context" doc:"Whether its failed calls have recovery.context. Without this key: defaults.recovery.context." enum:"on|off"`
	MaxChars int            `yaml:"max_chars" doc:"The most characters that it has. Without this key: defaults.recovery.max_chars." min:"200" max:"20000"`
	Target   []string       `yaml:"target" doc:"The arguments that say what a call is about, at most 4: order_id, file.path for a member, or /file/path. Attempts with the same ones are attempts at the same thing. Without this key: the required arguments that by their names name something (path, url, order_id, ...), else optional ones, else the required strings." format:"nonempty"`
	Rules    []RecoveryRule `yaml:"rules" doc:"What to suggest, before what defaults.recovery.rules say."`
}

// ProfileRecovery is what a profile says of it.
type ProfileRecovery struct {
	Context string `yaml:"context" doc:"off: no failed call of this profile has recovery.context. Without this key: as its tool says." enum:"on|off"`
}

// RecoveryRule says what to suggest after some failures. What it does not name it
// does not ask for.
type RecoveryRule struct {
	Codes   []string `yaml:"codes" doc:"Codes of the failures that it is for. Without this key: all but OUTCOME_UNKNOWN." enum:"INVALID_ARGS|UNKNOWN_TOOL|NOT_FOUND|PERMISSION_DENIED|UNAUTHENTICATED|CONFLICT|BUSINESS_RULE|UNRECOVERABLE|RATE_LIMITED|TIMEOUT|DEPENDENCY_UNAVAILABLE|CIRCUIT_OPEN|OVERLOADED|OUTCOME_UNKNOWN|INVALID_OUTPUT"`
	Pattern string   `yaml:"pattern" doc:"RE2 expression that matches somewhere in the error."`
	Suggest []string `yaml:"suggest" doc:"Sentences for the model, the best first. A tool that one of them names stands in braces, {list_files}: the sentence is left out where that tool may not be called."`
	Tried   string   `yaml:"tried" doc:"By which sign, beside having been made twice, a suggestion was followed already, and is not made again. changed: the arguments were others. smaller: a number among them was larger. waited: a minute has passed. repeated: they were the same." enum:"changed|smaller|waited|repeated"`
	Only    bool     `yaml:"only" doc:"Where it matches, nothing is suggested that comes after its list of rules."`
}

// GeneralRule is a rule for several tools.
type GeneralRule struct {
	Tools []string `yaml:"tools" doc:"Globs of the tools that it is for. Without this key: all." format:"glob"`

	RecoveryRule `yaml:",inline"`
}

// off is the value of context under which nothing is told.
const off = "off"

// Recovery is what failed calls of a tool are told, every default filled in.
type Recovery struct {
	// Off: nothing.
	Off bool
	// MaxChars is the most characters.
	MaxChars int
	// Target are the paths of the arguments that say what a call is about.
	Target []string
}

// Recovery returns it for a tool with these rules; of the zero value, for a tool
// that there is not.
func (c *Config) Recovery(r CallRules) Recovery {
	all := c.Defaults.Recovery
	return Recovery{
		Off:      cmp.Or(r.Recovery.Context, all.Context) == off,
		MaxChars: cmp.Or(r.Recovery.MaxChars, all.MaxChars),
		Target:   slices.Clone(r.Recovery.Target),
	}
}

// Off reports that no failed call of the profile is told anything.
func (r ProfileRecovery) Off() bool { return r.Context == off }

func (r RecoveryRules) check(w within) {
	if r.Context == off && (r.Rules != nil || r.Target != nil || r.MaxChars != 0) {
		w.in("context").find(RuleUnused, "with context: off the other keys say nothing")
	}
}

// generalRules checks which tools they are for, and which they name.
func (k *checker) generalRules(w within) {
	for i, rule := range k.Defaults.Recovery.Rules {
		at := w.in(index(i))
		for j, glob := range rule.Tools {
			k.names.glob(glob, at.in("tools", index(j)))
		}
		k.names.suggested(rule.RecoveryRule, at)
	}
}
