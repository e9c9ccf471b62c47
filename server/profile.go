package server

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/output"
	"github.com/sidecall/sidecall/tool"
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

// find returns the profile of a request, or the error for the model.
func (p Profiles) find(name string) (Profile, *tool.Error) {
	if name == "" {
		name = p.Default
	}
	if profile, ok := p.ByName[name]; ok {
		return profile, nil
	}
	names := make([]string, 0, len(p.ByName))
	for n := range p.ByName {
		names = append(names, n)
	}
	slices.Sort(names)
	return Profile{}, &tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("the profile %q is not declared", name),
		Received:   quote(name),
		Hint: fmt.Sprintf("The agent's program must send one of the declared profiles: %s. Do not call tools until it does.",
			strings.Join(names, ", ")),
	}
}
