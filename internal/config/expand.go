package config

import (
	"cmp"

	"go.yaml.in/yaml/v4"
)

// maxAliasBytes bounds what aliases add to a file when each is replaced by
// what it stands for.
const maxAliasBytes = 32 << 20

// maxMergedKeys bounds the keys that merges bring, before they are copied.
const maxMergedKeys = 100_000

// nodeBytes is what a node is taken to cost beside its text.
const nodeBytes = 32

// expander replaces aliases by what they stand for and merges (<<) by the keys
// they bring. No value is copied: an anchored node is shared by all its aliases. It
// walks the tree as those do who read it, and no further than the bounds.
type expander struct {
	found  *collector
	added  int64 // cost of what aliases stand for
	merged int   // keys that merges brought
}

// expand returns the root without aliases and merges, or nil with a problem
// when that would be endless or too large.
func expand(root *yaml.Node, found *collector) *yaml.Node {
	before := len(found.found)
	e := &expander{found: found}
	if !e.visit(root, 0, nil) || len(found.found) > before {
		return nil
	}
	return root
}

// visit expands the node in place, which is reached through an alias, or nil; false
// ends the walk.
func (e *expander) visit(n *yaml.Node, depth int, alias *yaml.Node) bool {
	if alias != nil {
		e.added += nodeBytes + int64(len(n.Value))
	}
	switch {
	case depth > maxDepth:
		e.found.find(RuleSyntax, place(cmp.Or(alias, n)), "aliases nest values more than %d deep, or a value holds an alias of itself", maxDepth)
		return false
	case e.added > maxAliasBytes:
		e.found.find(RuleSyntax, place(cmp.Or(alias, n)), "aliases expand the file by more than %s", Bytes(maxAliasBytes))
		return false
	}
	if tag := n.ShortTag(); n.Kind == yaml.MappingNode && tag != "!!map" || n.Kind == yaml.SequenceNode && tag != "!!seq" {
		e.found.find(RuleSyntax, place(n), "expected %s without a tag, found the tag %s: remove it", describe(n), shorten(tag))
	}
	for i, child := range n.Content {
		through := alias
		if child.Kind == yaml.AliasNode {
			through = cmp.Or(alias, child)
			n.Content[i] = child.Alias
		}
		if !e.visit(n.Content[i], depth+1, through) {
			return false
		}
	}
	return n.Kind != yaml.MappingNode || e.merge(n)
}

// merge replaces every << of a mapping by the keys it brings. Keys of the
// mapping itself are stronger, then earlier merges. False ends the walk.
func (e *expander) merge(n *yaml.Node) bool {
	var merged []*yaml.Node
	own := make([]*yaml.Node, 0, len(n.Content))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() != "!!merge" {
			own = append(own, key, value)
			continue
		}
		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}
		for _, source := range sources {
			if source.Kind != yaml.MappingNode {
				e.found.find(RuleSyntax, place(key), "<< merges mappings only: expected an alias of a mapping or a list of such, found %s", describe(source))
				continue
			}
			if e.merged += len(source.Content) / 2; e.merged > maxMergedKeys {
				e.found.find(RuleSyntax, place(key), "merges (<<) bring more than %d keys into the file", maxMergedKeys)
				return false
			}
			merged = append(merged, source.Content...)
		}
	}
	if len(own) == len(n.Content) {
		return true
	}
	have := map[string]bool{}
	for i := 0; i < len(own); i += 2 {
		have[own[i].Value] = true
	}
	for i := 0; i+1 < len(merged); i += 2 {
		if key := merged[i]; !have[key.Value] {
			have[key.Value] = true
			own = append(own, key, merged[i+1])
		}
	}
	n.Content = own
	return true
}
