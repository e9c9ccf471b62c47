// Package server is the sidecar itself: the registry of tools, the pipeline that
// a call goes through, and the gRPC services and pages in front of it.
//
// execute.go is the pipeline and the page to read first.
package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// Route is everything that running a tool needs, compiled once when the tool
// is registered. It is immutable; calls in flight keep the route they began
// with, whatever the registry does meanwhile.
type Route struct {
	Tool   tool.Tool
	Schema *schema.Schema
	// Backend runs the tool; Target is the backend's own name for it.
	Backend backend.Backend
	Target  string
	// Heartbeat says that the backend reports progress, which then keeps an
	// attempt alive beyond its timeout, up to the deadline of the call.
	Heartbeat bool
	// Program reads replies: empty, partial, error mapping, output schema.
	Program *interpret.Program

	// Guards, shared by the tools of one backend. nil means no such guard.
	Breaker *breaker.Breaker
	Rate    *limit.Rate
	Retries *retry.Budget
	Slots   *limit.Bulkhead
	// ToolSlots bounds the calls of this tool alone; Room does where the backend
	// has a queue in which they would come too late.
	ToolSlots *limit.Bulkhead
	Room      *limit.Adaptive

	// Verification finds out what became of a call whose answer was lost; nil
	// when nothing is configured.
	Verification *Verification

	// Secrets takes the secrets of the backend out of what it says in its
	// errors; nil when it has none.
	Secrets *strings.Replacer
}

// Registry holds the tools that can be called. Readers take a snapshot without
// a lock; writers replace it whole, so that a reader sees all of an update or
// nothing of it.
type Registry struct {
	mu       sync.Mutex // serialises writers
	sources  map[string]source
	snapshot atomic.Pointer[snapshot]
}

// source is what one origin (the config file, one discovering backend) has
// registered.
type source struct {
	routes []*Route
	down   string // why the backend cannot be reached; empty when it can
}

type snapshot struct {
	routes     map[string]*Route
	names      []string // sorted
	down       map[string]string
	collisions []Collision
}

// Collision is a tool that is not registered because its name is taken.
type Collision struct {
	Name string
	// Kept and Dropped name the backends that both have such a tool.
	Kept, Dropped string
}

func (c Collision) String() string {
	return fmt.Sprintf("tool %q of backend %q is not registered: backend %q has a tool of that name; set a prefix on one of them",
		c.Name, c.Dropped, c.Kept)
}

// BuiltIn is the backend name of the tools that Sidecall brings itself.
const BuiltIn = "sidecall"

// ConfigSource names the tools of the config file. It sorts before every
// backend name, so that a tool of the config file wins over a discovered one.
const ConfigSource = ""

// NewRegistry returns a registry that holds nothing.
func NewRegistry() *Registry {
	r := &Registry{sources: make(map[string]source)}
	r.snapshot.Store(&snapshot{})
	return r
}

// Set replaces the tools of one source. Of two tools with the same name the one
// whose source sorts first is kept, so the outcome does not depend on which
// backend was faster; the others are returned.
func (r *Registry) Set(name string, routes []*Route) []Collision {
	return r.update(name, func(s *source) { s.routes, s.down = routes, "" })
}

// SetDown records that a source cannot be reached. Its tools stay registered:
// they fail by themselves, with the right error, and come back by themselves.
func (r *Registry) SetDown(name, reason string) {
	r.update(name, func(s *source) { s.down = reason })
}

func (r *Registry) update(name string, change func(*source)) []Collision {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sources[name]
	change(&s)
	r.sources[name] = s

	next := &snapshot{routes: make(map[string]*Route), down: make(map[string]string)}
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		s := r.sources[name]
		if s.down != "" {
			next.down[name] = s.down
		}
		for _, route := range s.routes {
			if kept, taken := next.routes[route.Tool.Name]; taken {
				next.collisions = append(next.collisions,
					Collision{route.Tool.Name, kept.Tool.Backend, route.Tool.Backend})
				continue
			}
			next.routes[route.Tool.Name] = route
		}
	}
	next.names = slices.Sorted(maps.Keys(next.routes))
	r.snapshot.Store(next)
	return next.collisions
}

// Lookup returns the route of a tool.
func (r *Registry) Lookup(name string) (*Route, bool) {
	route, ok := r.snapshot.Load().routes[name]
	return route, ok
}

// Routes returns every route, sorted by name. The slice is the caller's.
func (r *Registry) Routes() []*Route {
	s := r.snapshot.Load()
	routes := make([]*Route, len(s.names))
	for i, name := range s.names {
		routes[i] = s.routes[name]
	}
	return routes
}

// Names returns the names of all tools, sorted. The slice is shared: read only.
func (r *Registry) Names() []string { return r.snapshot.Load().names }

// Unverifiable says, in a sentence each, which verifications ask a tool that is
// registered and must not be asked. One that is not registered may still be
// discovered.
func (r *Registry) Unverifiable() []string {
	var problems []string
	for _, route := range r.Routes() {
		if route.Verification == nil {
			continue
		}
		with, ok := r.Lookup(route.Verification.Tool)
		if ok && with.Tool.Effect != tool.ReadOnly {
			problems = append(problems, fmt.Sprintf("the tool %s cannot be verified with %s, which is %s: calls of unknown outcome stay so",
				route.Tool.Name, with.Tool.Name, with.Tool.Effect))
		}
	}
	return problems
}

// Down returns the backends that cannot be reached, each with the reason. The
// map is shared: read only.
func (r *Registry) Down() map[string]string { return r.snapshot.Load().down }

// Collisions returns the tools that are not registered because their name is
// taken. The slice is shared: read only.
func (r *Registry) Collisions() []Collision { return r.snapshot.Load().collisions }
