package catalog

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ConfigSource names the tools of the config file.
const ConfigSource = ""

// Names have owners. A tool that the config declares is the config's. A name under the
// prefix of a backend is that backend's, whether it is there or not; of two prefixes the
// longer counts. A name that the config mentions of a backend is that backend's until it
// has said that it has no such tool. Every other name is of the source that serves it
// first, for as long as that one has it. So no source takes a name from another one,
// however they are called and whenever they come.

// claim is how strongly a source holds a name. Of two the larger has it; of two that are
// the same, the source that sorts first.
type claim struct {
	config int  // what the config says
	owns   bool // it has the name already
	serves bool // it has such a tool, or is expected to
}

func (c claim) beats(d claim) bool {
	switch {
	case c.config != d.config:
		return c.config > d.config
	case c.owns != d.owns:
		return c.owns
	}
	return c.serves && !d.serves
}

// claim is that of a source; lists says that it has a tool of the name, and owned that
// it had the name before.
func (s *source) claim(name string, lists, owned bool) claim {
	awaited := s.expected != nil
	made := claim{owns: owned && (lists || awaited), serves: lists}
	if s.announced.Prefix != "" && strings.HasPrefix(name, s.announced.Prefix) {
		made.config = 2 * len(s.announced.Prefix)
	}
	if slices.Contains(s.announced.Mentioned, name) && (lists || awaited) {
		made.config++
		made.serves = true
	}
	return made
}

// owners says whose names are.
type owners struct {
	sources map[string]source
	sorted  []string          // the names of the sources
	each    []source          // in that order
	lists   map[string][]int  // which of them list a name
	before  map[string]string // whose they were
}

func newOwners(sources map[string]source, before map[string]string) owners {
	o := owners{sources: sources, sorted: slices.Sorted(maps.Keys(sources)), lists: make(map[string][]int), before: before}
	for i, name := range o.sorted {
		o.each = append(o.each, sources[name])
		for _, route := range o.each[i].routes {
			o.lists[route.Tool.Name] = append(o.lists[route.Tool.Name], i)
		}
	}
	return o
}

// of returns the source that has a name, which asking has, or would like to.
func (o owners) of(name, asking string) (owner string) {
	var best claim
	before, owned := o.before[name]
	listing := o.lists[name]
	for i, from := range o.sorted {
		lists := from == asking || slices.Contains(listing, i)
		made := o.each[i].claim(name, lists, owned && from == before)
		if lists && from == ConfigSource {
			made.config = math.MaxInt
		}
		if made.beats(best) {
			owner, best = from, made
		}
	}
	return owner
}

// Collision is a tool that is not registered because its name is another's.
type Collision struct {
	Name string
	// Kept and Dropped name the backends.
	Kept, Dropped string
	// Prefix of the one that has the name, where that is why.
	Prefix string
}

func (c Collision) String() string {
	why := "has a tool of that name"
	if c.Prefix != "" {
		why = fmt.Sprintf("has the names that begin with %s", c.Prefix)
	}
	return fmt.Sprintf("tool %q of backend %q is not registered: backend %q %s; set a prefix on one of them", c.Name, c.Dropped, c.Kept, why)
}

// collision is that of a name which another source has than the one that it is for.
func (o owners) collision(name, owner, backend string) Collision {
	c := Collision{Name: name, Kept: owner, Dropped: backend}
	for _, route := range o.sources[owner].routes {
		if route.Tool.Name == name {
			c.Kept = route.Tool.Backend // the config's tools are of any
			return c
		}
	}
	if prefix := o.sources[owner].announced.Prefix; strings.HasPrefix(name, prefix) {
		c.Prefix = prefix
	}
	return c
}
