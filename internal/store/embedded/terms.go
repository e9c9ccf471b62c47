package embedded

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
)

// posting is of one term of one call, in memory; what the call is, and its terms, stands in its
// row of the log.
type posting struct {
	term   uint64 // a digest of the tenant and the term, which may be another's too
	number int64  // of the claim: later ones have larger ones
	of     digest // of the row
}

// compare puts the latest claims of a term first.
func (p posting) compare(q posting) int {
	return cmp.Or(cmp.Compare(p.term, q.term), cmp.Compare(q.number, p.number))
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
func (x *index) postings(f frame) []posting {
	v, tenant, of := decodeIndexed(f.value), decodeKey(f.key).Tenant, x.digest(f.kind, f.key)
	all := make([]posting, len(v.terms))
	for i := range v.terms {
		all[i] = posting{term: x.term(tenant, &v.terms[i]), number: v.number, of: of}
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
