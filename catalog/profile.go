package catalog

import (
	"maps"
	"path"
	"slices"

	"github.com/sidecall/sidecall/output"
)

// Profile says which tools a kind of agent may call.
type Profile struct {
	Name string
	// Tools are glob patterns (* and ?) of tool names.
	Tools []string
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

// Find returns the profile of a request; false when it is not declared.
func (p Profiles) Find(name string) (Profile, bool) {
	if name == "" {
		name = p.Default
	}
	profile, ok := p.ByName[name]
	return profile, ok
}

// Names returns the names of the declared profiles, sorted.
func (p Profiles) Names() []string { return slices.Sorted(maps.Keys(p.ByName)) }
