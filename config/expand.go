package config

import (
	"math"

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
// they bring. Nothing is copied: an anchored node is shared by all its aliases,
// so the work is linear in the text however large the result would be when
// written out, and that size is known before anybody walks it.
type expander struct {
	found  *collector
	done   map[*yaml.Node]extent
	open   map[*yaml.Node]bool
	own    int64 // cost of the text itself
	merged int   // keys that merges brought
	// tooLarge and tooDeep are the first values that broke a bound.
	tooLarge, tooDeep *yaml.Node
}

// extent is the size of a node written out.
type extent struct {
	bytes int64
	depth int
}

// expand returns the root without aliases and merges, or nil with a problem
// when that would be endless or too large.
func expand(root *yaml.Node, found *collector) *yaml.Node {
	e := &expander{found: found, done: map[*yaml.Node]extent{}, open: map[*yaml.Node]bool{}}
	before := len(found.found)
	root = e.target(root)
	size := e.visit(root)
	switch {
	case len(found.found) > before:
		return nil
	case size.depth > maxDepth:
		found.find(RuleSyntax, place(e.tooDeep), "aliases nest values more than %d deep", maxDepth)
		return nil
	case size.bytes-e.own > maxAliasBytes:
		found.find(RuleSyntax, place(e.tooLarge), "aliases expand the file by more than %s", Bytes(maxAliasBytes))
		return nil
	}
	return root
}

// target follows an alias.
func (e *expander) target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// visit expands the node in place, once, and measures it.
func (e *expander) visit(n *yaml.Node) extent {
	if size, ok := e.done[n]; ok {
		return size
	}
	if e.open[n] {
		e.found.find(RuleSyntax, place(n), "this value holds an alias of itself")
		return extent{}
	}
	e.open[n] = true
	size := extent{bytes: nodeBytes + int64(len(n.Value))}
	e.own += size.bytes
	for i, child := range n.Content {
		n.Content[i] = e.target(child)
		inner := e.visit(n.Content[i])
		size.bytes = min(size.bytes+inner.bytes, math.MaxInt64/4)
		size.depth = max(size.depth, inner.depth+1)
	}
	if e.tooDeep == nil && size.depth > maxDepth {
		e.tooDeep = n
	}
	if e.tooLarge == nil && size.bytes-e.own > maxAliasBytes {
		e.tooLarge = n
	}
	delete(e.open, n)
	if n.Kind == yaml.MappingNode {
		e.merge(n)
	}
	e.done[n] = size
	return size
}

// merge replaces every << of a mapping by the keys it brings. Keys of the
// mapping itself are stronger, then earlier merges.
func (e *expander) merge(n *yaml.Node) {
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
				return
			}
			merged = append(merged, source.Content...)
		}
	}
	if len(own) == len(n.Content) {
		return
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
}
