package embedded

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
)

// terms is the index of calls by their terms, in memory: postings in order, in chunks of some
// hundred, so that one that comes or goes moves few others. There is one for each term of a
// call; what the call is, and its terms, stands in its row of the log.
type terms struct {
	chunks [][]posting
}

// posting is of one term of one call.
type posting struct {
	term   uint64 // a digest of the tenant and the term, which may be another's too
	number int64  // of the claim: later ones have larger ones
	at     int64  // where the row is in the log
}

func (p posting) compare(q posting) int {
	return cmp.Or(cmp.Compare(p.term, q.term), cmp.Compare(p.number, q.number))
}

// mostPostings is how many a chunk has at the most.
const mostPostings = 256

// find is where a posting is, or would be: its chunk, and its place there.
func (t *terms) find(p posting) (chunk, at int, found bool) {
	chunk, _ = slices.BinarySearchFunc(t.chunks, p, func(c []posting, p posting) int { return c[len(c)-1].compare(p) })
	if chunk == len(t.chunks) {
		return chunk, 0, false
	}
	at, found = slices.BinarySearchFunc(t.chunks[chunk], p, posting.compare)
	return chunk, at, found
}

// put adds a posting, or changes where its row is.
func (t *terms) put(p posting) {
	i, at, found := t.find(p)
	switch {
	case found:
		t.chunks[i][at] = p
		return
	case i == len(t.chunks) && i == 0:
		t.chunks = [][]posting{{p}}
		return
	case i == len(t.chunks): // behind all
		i, at = i-1, len(t.chunks[i-1])
	}
	if chunk := t.chunks[i]; len(chunk) == mostPostings {
		cut := mostPostings / 2
		if at == mostPostings { // more of the same term may come
			cut = at
		}
		t.chunks[i] = chunk[:cut]
		t.chunks = slices.Insert(t.chunks, i+1, slices.Clone(chunk[cut:]))
		if at >= cut {
			i, at = i+1, at-cut
		}
	}
	t.chunks[i] = slices.Insert(t.chunks[i], at, p)
}

func (t *terms) remove(p posting) {
	i, at, found := t.find(p)
	if !found {
		return
	}
	if t.chunks[i] = slices.Delete(t.chunks[i], at, at+1); len(t.chunks[i]) == 0 {
		t.chunks = slices.Delete(t.chunks, i, i+1)
	}
}

// latest are the postings of a term before one with a number, the latest first.
func (t *terms) latest(term uint64, number int64) iter.Seq[posting] {
	return func(yield func(posting) bool) {
		i, at, _ := t.find(posting{term: term, number: number})
		for {
			if at == 0 {
				if i--; i < 0 {
					return
				}
				at = len(t.chunks[i])
			}
			at--
			if p := t.chunks[i][at]; p.term != term || !yield(p) {
				return
			}
		}
	}
}

// indexed is what the row of a call says: by which terms it is found, and of which claim.
type indexed struct {
	number  int64 // where the row was put first: it only grows, and tells the order of claims
	claimed int64 // when, in milliseconds since 1970
	terms   []dedupe.Term
}

// The row of a call has its number and the time of its claim (8 bytes each), and its terms.
const indexHead = 8 + 8

func (v *indexed) encode() []byte {
	b := make([]byte, 0, indexHead+len(v.terms)*len(dedupe.Term{}))
	b = binary.BigEndian.AppendUint64(b, uint64(v.number))
	b = binary.BigEndian.AppendUint64(b, uint64(v.claimed))
	for i := range v.terms {
		b = append(b, v.terms[i][:]...)
	}
	return b
}

// add adds terms, as many as a call may have.
func (v *indexed) add(more []dedupe.Term) {
	v.terms = slices.Clone(v.terms)
	for _, term := range more {
		if len(v.terms) < dedupe.MaxTerms && !slices.Contains(v.terms, term) {
			v.terms = append(v.terms, term)
		}
	}
}

func decodeIndexed(b []byte) (v indexed) {
	v.number, v.claimed = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	for term := range slices.Chunk(b[indexHead:], len(dedupe.Term{})) {
		v.terms = append(v.terms, dedupe.Term(term))
	}
	return v
}

// postings are those of the row of a call.
func (x *index) postings(key, value []byte) []posting {
	v, tenant := decodeIndexed(value), decodeKey(key).Tenant
	all := make([]posting, len(v.terms))
	for i := range v.terms {
		all[i] = posting{term: x.term(tenant, &v.terms[i]), number: v.number}
	}
	return all
}

// term is what stands for a term of a tenant.
func (x *index) term(tenant string, term *dedupe.Term) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seeds[0])
	_, _ = h.Write(term[:]) // a hash never fails
	_, _ = h.WriteString(tenant)
	return h.Sum64()
}
