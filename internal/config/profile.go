package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Profile is a set of tools and limits that a request can name. A limit of 0
// is no limit.
type Profile struct {
	MaxToolCalls   int           `yaml:"max_tool_calls" doc:"Tool calls per prompt; 0 for no limit." min:"0" max:"1000000000"`
	MaxTokens      int64         `yaml:"max_tokens" doc:"Tokens per prompt; 0 for no limit." min:"0" max:"1000000000000"`
	MaxDuration    time.Duration `yaml:"max_duration" doc:"Time per prompt; 0s for no limit." min:"0s" max:"8760h"`
	Tools          []string      `yaml:"tools" doc:"Globs of the tools that may be called. read_output always may." default:"*" format:"glob"`
	Mode           string        `yaml:"mode" doc:"observe: nothing of its calls is refused, cut, held or answered from a record; what would have been is written down. See observe.md." enum:"enforce|observe" default:"enforce"`
	AllowSensitive bool          `yaml:"allow_sensitive" doc:"Sensitive tools may be called after untrusted output too."`
	LoopGuard      LoopGuard     `yaml:"loop_guard" doc:"When a model that goes round in circles is nudged, refused and stopped. See loops.md."`

	Recovery ProfileRecovery `yaml:"recovery" doc:"What failed calls of this profile are told of what was tried before them."`
}

func (p Profile) check(w within) {
	if d := p.MaxDuration; d > 0 && d < time.Millisecond {
		w.in("max_duration").bad("stores count in milliseconds: expected 1ms or more, or 0s for no limit")
	}
}

// The modes of a profile.
const enforces, observes = "enforce", "observe"

// Observes reports that nothing is done to calls of the profile but to look at them.
func (p Profile) Observes() bool { return p.Mode == observes }

// Observe is how profiles that observe write down what they see.
type Observe struct {
	File Path `yaml:"file" doc:"The file to which a line is added for each call of a profile with mode: observe, for sidecall report; 256 MiB at the most. Without this key: ./observed.jsonl."`
}

// ObservedFile is the path of the file of what is observed; empty where no profile observes.
func (c *Config) ObservedFile() string {
	for _, p := range c.Profiles {
		if p.Observes() {
			return cmp.Or(c.Observe.File.Reveal(), filepath.Join(c.Dir, "observed.jsonl"))
		}
	}
	return ""
}

// Profiles are the profiles by name.
type Profiles map[string]Profile

// builtinProfiles exist without being declared.
var builtinProfiles = Profiles{
	"interactive": {Mode: enforces, MaxToolCalls: 25, MaxTokens: 50_000, Tools: []string{"*"}},
	"research":    {Mode: enforces, MaxToolCalls: 200, MaxTokens: 500_000, Tools: []string{"*"}},
	"code":        {Mode: enforces, Tools: []string{"*"}},
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
// characters and ? for one. To filepath.Match a slash is no character like another.
func matchGlob(glob, name string) bool {
	ok, err := filepath.Match(strings.ReplaceAll(glob, "/", "\n"), strings.ReplaceAll(name, "/", "\n"))
	return ok && err == nil
}
