package config

import (
	"slices"
	"time"
)

// Profile is a set of tools and limits that a request can name. A limit of 0
// is no limit.
type Profile struct {
	MaxToolCalls   int           `yaml:"max_tool_calls" doc:"Tool calls per prompt; 0 for no limit." min:"0" max:"1000000000"`
	MaxTokens      int64         `yaml:"max_tokens" doc:"Tokens per prompt; 0 for no limit." min:"0" max:"1000000000000"`
	MaxDuration    time.Duration `yaml:"max_duration" doc:"Time per prompt; 0s for no limit." min:"0s" max:"8760h"`
	Tools          []string      `yaml:"tools" doc:"Globs of the tools that may be called. read_output always may." default:"*" format:"glob"`
	AllowSensitive bool          `yaml:"allow_sensitive" doc:"Sensitive tools may be called after untrusted output too."`
	LoopGuard      LoopGuard     `yaml:"loop_guard" doc:"When a model that goes round in circles is nudged, refused and stopped. See loops.md."`

	Recovery ProfileRecovery `yaml:"recovery" doc:"What failed calls of this profile are told of what was tried before them."`
}

func (p Profile) check(w within) {
	if d := p.MaxDuration; d > 0 && d < time.Millisecond {
		w.in("max_duration").bad("stores count in milliseconds: expected 1ms or more, or 0s for no limit")
	}
}

// Profiles are the profiles by name.
type Profiles map[string]Profile

// builtinProfiles exist without being declared.
var builtinProfiles = Profiles{
	"interactive": {MaxToolCalls: 25, MaxTokens: 50_000, Tools: []string{"*"}},
	"research":    {MaxToolCalls: 200, MaxTokens: 500_000, Tools: []string{"*"}},
	"code":        {Tools: []string{"*"}},
}

// seed is what a declared profile starts from: the built-in one of its name.
func (Profiles) seed(name string) any {
	if p, ok := builtinProfiles[name]; ok {
		p.Tools = slices.Clone(p.Tools)
		return p
	}
	return nil
}

// anyGlob reports whether one of the globs matches name.
func anyGlob(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		return matchGlob(glob, name)
	})
}

// matchGlob matches name against a glob in which * stands for any run of
// characters and ? for one. It takes at most len(glob)·len(name) steps: on a
// mismatch only the last * is tried again, one character further.
func matchGlob(glob, name string) bool {
	g, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			from++
			g, n = star+1, from
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}
