package timeline

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Sample picks some of many conversations at random: by a hash of the seed and the id, so
// that the order in which they come does not matter, nor that one comes twice, and the same
// seed picks the same of the same.
type Sample struct {
	seed int64
	most int
	// picked are those with the lowest hashes, the highest of them first.
	picked hashes
	in     map[string]bool
}

type hashed struct {
	hash uint64
	id   string
}

// NewSample returns a sample of most conversations at the most.
func NewSample(seed int64, most int) *Sample {
	return &Sample{seed: seed, most: most, in: map[string]bool{}}
}

// Offer offers a conversation.
func (s *Sample) Offer(id string) {
	one := hashed{s.hash(id), id}
	full := len(s.picked) == s.most
	if s.in[id] || full && !one.before(s.picked[0]) {
		return
	}
	if full {
		delete(s.in, heap.Pop(&s.picked).(hashed).id)
	}
	heap.Push(&s.picked, one)
	s.in[id] = true
}

// Picked are the ids of the sample, in its order.
func (s *Sample) Picked() []string {
	all := slices.Clone(s.picked)
	slices.SortFunc(all, hashed.compare)
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.id
	}
	return ids
}

func (s *Sample) hash(id string) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(s.seed)), id...))
	return binary.BigEndian.Uint64(sum[:])
}

func (h hashed) compare(other hashed) int {
	return cmp.Or(cmp.Compare(h.hash, other.hash), cmp.Compare(h.id, other.id))
}

func (h hashed) before(other hashed) bool { return h.compare(other) < 0 }

// hashes are a heap with the highest on top.
type hashes []hashed

func (h hashes) Len() int           { return len(h) }
func (h hashes) Less(i, j int) bool { return h[j].before(h[i]) }
func (h hashes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hashes) Push(x any)        { *h = append(*h, x.(hashed)) }

// Pop implements heap.Interface.
func (h *hashes) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
