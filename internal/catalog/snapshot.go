package catalog

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Limits hold for every tool.
type Limits struct {
	// KeepOutputBytes is how much of an output is read and kept at the most.
	KeepOutputBytes int64
	// OutputTTL is how long a kept output can be read.
	OutputTTL time.Duration
	// MaxBatch is how many calls one request may hold, BatchParallel how many of
	// them run at the same time.
	MaxBatch, BatchParallel int
	// RequireIDs are the ids that a call must have beside its tool_use_id, by
	// their names in the contract.
	RequireIDs []string
	// RefuseUnrecorded refuses read_only tools too while the store is down.
	// Tools with an effect are always refused then.
	RefuseUnrecorded bool
	// KeepArguments: the record of a call has its arguments too, without what is sensitive.
	KeepArguments bool
	// Taints: some tool, discovered or not yet, is refused once untrusted output has
	// entered a prompt; so it is worth knowing which ones it has.
	Taints bool
}

// Snapshot is what can be called at one instant. It is immutable, and so is
// whatever it returns.
type Snapshot struct {
	Profiles Profiles
	Limits   Limits
	Advice   Advice

	routes     map[string]*Route
	names      []string // sorted
	down       map[string]string
	collisions []Collision
	// undiscovered is nil when every source has found its tools.
	undiscovered map[string]Undiscovered
}

// source is what one origin (the config file, one discovering backend) has
// registered.
type source struct {
	// announced is what the config says of it.
	announced Undiscovered
	routes    []*Route
	down      string // why the backend cannot be reached; empty when it can
	// expected is what is known of tools that are still to come; nil from when they
	// have been seen.
	expected *Undiscovered
}

// newSnapshot puts the sources together. owned says whose the names were, and tells then
// whose they are now.
func newSnapshot(profiles Profiles, limits Limits, by owners, owned map[string]string) *Snapshot {
	s := &Snapshot{Profiles: profiles, Limits: limits, routes: make(map[string]*Route), down: make(map[string]string)}
	maps.DeleteFunc(owned, func(_, of string) bool { return by.sources[of].expected == nil })
	for _, name := range by.sorted {
		from := by.sources[name]
		if from.down != "" {
			s.down[name] = from.down
		}
		s.expect(name, from)
		for _, route := range from.routes {
			owner := by.of(route.Tool.Name, name)
			if _, twice := s.routes[route.Tool.Name]; owner != name || twice {
				s.collisions = append(s.collisions, by.collision(route.Tool.Name, owner, route.Tool.Backend))
				continue
			}
			s.routes[route.Tool.Name], owned[route.Tool.Name] = route, name
		}
	}
	s.names = slices.Sorted(maps.Keys(s.routes))
	return s
}

// expect takes in a source whose tools are still to come.
func (s *Snapshot) expect(name string, from source) {
	if from.expected == nil {
		return
	}
	if s.undiscovered == nil {
		s.undiscovered = make(map[string]Undiscovered)
	}
	u := *from.expected
	u.Reason = from.down
	s.undiscovered[name] = u
}

// Lookup returns the route of a tool.
func (s *Snapshot) Lookup(name string) (*Route, bool) {
	route, ok := s.routes[name]
	return route, ok
}

// Taints reports that output of the route must not lead to a call of a sensitive tool.
// What read_output shows may be any tool's, also of one that is gone.
func (s *Snapshot) Taints(route *Route) bool { return s.Limits.Taints && route.Tool.Policy.Untrusted }

// Names returns the names of all tools, sorted.
func (s *Snapshot) Names() []string { return s.names }

// Routes returns the routes of the tools that a profile may call, by name.
func (s *Snapshot) Routes(profile Profile) []*Route {
	routes := make([]*Route, 0, len(s.names))
	for route := range s.RoutesAfter(profile, "") {
		routes = append(routes, route)
	}
	return routes
}

// RoutesAfter yields the routes of the tools that a profile may call and whose
// names sort behind one, by name; all of them for the empty name.
func (s *Snapshot) RoutesAfter(profile Profile, after string) iter.Seq[*Route] {
	from, found := slices.BinarySearch(s.names, after)
	if found {
		from++
	}
	return func(yield func(*Route) bool) {
		for _, name := range s.names[from:] {
			if route := s.routes[name]; profile.Allows(name) && route.Refused == "" && !yield(route) {
				return
			}
		}
	}
}

// Allowed returns the names of the tools that a profile may call, sorted.
func (s *Snapshot) Allowed(profile Profile) []string {
	names := make([]string, 0, len(s.names))
	for _, name := range s.names {
		if profile.Allows(name) {
			names = append(names, name)
		}
	}
	return names
}

// Down returns the backends that cannot be reached, each with the reason.
func (s *Snapshot) Down() map[string]string { return s.down }

// Collisions returns the tools that are not registered because their name is
// taken.
func (s *Snapshot) Collisions() []Collision { return s.collisions }

// Unverifiable says, in a sentence each, which verifications ask a tool that is
// registered and must not be asked. One that is not registered may still be
// discovered.
func (s *Snapshot) Unverifiable() []string {
	var problems []string
	for _, name := range s.names {
		route := s.routes[name]
		if route.Verification == nil {
			continue
		}
		with, ok := s.routes[route.Verification.Tool]
		if ok && with.Tool.Effect != tool.ReadOnly {
			problems = append(problems, fmt.Sprintf("the tool %s cannot be verified with %s, which is %s: calls of unknown outcome stay so",
				name, with.Tool.Name, with.Tool.Effect))
		}
	}
	return problems
}

// Of returns how the calls of a route are told; nil where they are not. A nil route is
// that of a tool that there is not.
func (a *Advice) Of(route *Route) *Recovery {
	switch {
	case a.Advisor == nil:
		return nil
	case route != nil:
		return route.Recovery
	case a.UnknownTools:
		return &Recovery{}
	}
	return nil
}

// Undiscovered is a source that finds its tools by itself, and has not yet.
type Undiscovered struct {
	// Prefix of the names that its tools will have; empty when they may have any.
	Prefix string
	// Mentioned are the names that the config says something of.
	Mentioned []string
	// Optional: nobody waits for it.
	Optional bool
	// Why it has found none: empty while it is the first time that it looks.
	Reason string
}
