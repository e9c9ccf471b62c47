package catalog

import (
	"maps"
	"path"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
)

// Profile says which tools a kind of agent may call.
type Profile struct {
	Name string
	// Tools are glob patterns (* and ?) of tool names.
	Tools []string
	// MaxCalls, MaxTokens and MaxDuration are what a prompt may use; 0 is no limit.
	MaxCalls, MaxTokens int64
	MaxDuration         time.Duration
	// AllowTainted lets it call sensitive tools after untrusted output too.
	AllowTainted bool
	// Guard finds out when a prompt goes round in circles; nil does not.
	Guard *guard.Guard
	// Observe, if not nil, has its calls only looked at, and written down there.
	Observe *observed.Log
	// Untold: its failed calls are not told what was tried before, whatever the tool.
	Untold bool
}

// Allows reports whether the profile may call the tool. read_output it always
// may: what was cut from the profile's own results is read with it.
func (p Profile) Allows(name string) bool {
	if name == output.ToolName {
		return true
	}
	for _, pattern := range p.Tools {
		if pattern == "*" || pattern == name {
			return true
		}
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Profiles are the declared profiles and the one that a request without a
// profile gets.
type Profiles struct {
	Default string
	ByName  map[string]Profile
}

// Find returns the profile of a request; false when there is none. offered are the
// names that it may choose from, the first of them for a request that names none;
// none at all is every profile, and the default.
func (p Profiles) Find(name string, offered ...string) (Profile, bool) {
	switch {
	case name == "" && len(offered) > 0:
		name = offered[0]
	case name == "":
		name = p.Default
	case len(offered) > 0 && !slices.Contains(offered, name):
		return Profile{}, false
	}
	profile, ok := p.ByName[name]
	return profile, ok
}

// Names returns the names of the profiles that a request may choose from, sorted;
// offered as in Find.
func (p Profiles) Names(offered ...string) []string {
	if len(offered) > 0 {
		return slices.Sorted(slices.Values(offered))
	}
	return slices.Sorted(maps.Keys(p.ByName))
}
