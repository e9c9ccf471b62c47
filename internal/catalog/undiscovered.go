package catalog

import (
	"maps"
	"slices"
	"strings"
)

// firstLook is why a source has found nothing that is looking for the first time.
const firstLook = "it is being connected"

// Why says why it has found none.
func (u Undiscovered) Why() string {
	if u.Reason == "" {
		return firstLook
	}
	return u.Reason
}

// Expect announces a source whose tools follow.
func (g *Generation) Expect(name string, u Undiscovered) {
	g.update(name, func(s *source) { s.announced, s.expected = u, &u })
}

// Undiscovered returns the sources whose tools are not known yet.
func (s *Snapshot) Undiscovered() map[string]Undiscovered { return s.undiscovered }

// Discovered reports whether every source that is not optional has found its tools
// once.
func (s *Snapshot) Discovered() bool {
	for _, u := range s.undiscovered {
		if !u.Optional {
			return false
		}
	}
	return true
}

// MayHave returns the sources, sorted, whose tools are not known yet and of which
// one may be called so.
func (s *Snapshot) MayHave(name string) []string {
	if len(s.undiscovered) == 0 {
		return nil // as nearly always
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.undiscovered)), func(source string) bool {
		return !strings.HasPrefix(name, s.undiscovered[source].Prefix)
	})
}
