package timeline

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Sample picks some of many conversations at random: by a hash of the seed and the id, so
// that the order in which they come does not matter, nor that one comes twice, and the same
// seed picks the same of the same.
type Sample struct {
	seed   int64
	most   int
	picked []hashed // those with the lowest hashes, in their order
}

type hashed struct {
	hash uint64
	id   string
}

// NewSample returns a sample of most conversations at the most.
func NewSample(seed int64, most int) *Sample {
	return &Sample{seed: seed, most: most}
}

// Offer offers a conversation.
func (s *Sample) Offer(id string) {
	one := hashed{s.hash(id), id}
	at, there := slices.BinarySearchFunc(s.picked, one, hashed.compare)
	if there || at == s.most {
		return
	}
	s.picked = slices.Insert(s.picked[:min(len(s.picked), s.most-1)], at, one)
}

// Picked are the ids of the sample, in its order.
func (s *Sample) Picked() []string {
	ids := make([]string, len(s.picked))
	for i, one := range s.picked {
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
