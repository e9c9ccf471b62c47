package config

import (
	"strconv"
	"sync"

	"go.yaml.in/yaml/v4"
)

// Source is the parsed text of a file: where what stands, and what its references stand for.
type Source struct {
	// File is the name that it was parsed under: its path, after Load.
	File string
	// Dir is the directory that relative paths are seen from, absolute, and in which commands
	// run for which the file names none.
	Dir string
	// Fingerprint is the same of two configs that a Watch has read with the same text, the same
	// behind each of their references, from one directory, and with the same in the variables
	// that commands are passed: by these they have somebody's rights. Any other has none.
	Fingerprint string

	root  *yaml.Node
	wide  *sync.Map // see spot
	given []given
}

// top is where all paths begin.
func (s *Source) top() spot { return spot{node: s.root, wide: s.wide} }

// Where returns the place of the value that the path leads to, a list item by
// its decimal index, with an empty Message for the caller to fill in: for what
// later stages find wrong with a schema or an expression. A path that leaves
// the file, for instance into a default, gives the deepest place that exists.
func (s *Source) Where(path ...string) Problem {
	here, _ := s.find(path)
	p := here.at()
	p.File = s.File
	return p
}

// WhereKey is Where, but the place of the key in front of the value.
func (s *Source) WhereKey(path ...string) Problem {
	here, _ := s.find(path)
	p := here.atKey()
	p.File = s.File
	return p
}

// Release lets go of the parsed text, which is most of what a large Config
// holds. Where then knows the file and the path, no line. Not safe for use
// together with Where.
func (s *Source) Release() { s.root, s.wide = &yaml.Node{}, nil }

func (s *Source) find(path []string) (here spot, there bool) { return s.top().down(path) }

// down walks the keys as far as they go, and says whether all of them are there; the
// path stays the one asked for.
func (s spot) down(keys []string) (here spot, there bool) {
	here, there = s, true
	for _, key := range keys {
		var next spot
		if there {
			next, there = here.step(key)
		}
		if !there {
			next = here
			next.path = here.path.child(key)
		}
		here = next
	}
	return here, there
}

// step goes one key or index down; false when there is no such thing.
func (s spot) step(key string) (spot, bool) {
	content := s.node.Content
	switch s.node.Kind {
	case yaml.MappingNode:
		if i := s.index(key); i >= 0 {
			return spot{s.path.child(key), content[i], content[i+1], s.wide}, true
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(content) {
			return spot{path: s.path.item(i), node: content[i], wide: s.wide}, true
		}
	}
	return spot{}, false
}

// wideKeys are from how many keys on those of a mapping are noted: each of a hundred thousand tools is looked for.
const wideKeys = 64

// index is where a key stands in a mapping; -1 where there is none. Of one that stands twice it is the first.
func (s spot) index(key string) int {
	content := s.node.Content
	if s.wide == nil || len(content) < 2*wideKeys {
		for i := 0; i+1 < len(content); i += 2 {
			if content[i].Value == key {
				return i
			}
		}
		return -1
	}
	noted, there := s.wide.Load(s.node)
	if !there {
		places := make(map[string]int, len(content)/2)
		for i := len(content) - 2; i >= 0; i -= 2 {
			places[content[i].Value] = i
		}
		noted, _ = s.wide.LoadOrStore(s.node, places)
	}
	if i, there := noted.(map[string]int)[key]; there { //nolint:forcetypeassert // it is made above
		return i
	}
	return -1
}
