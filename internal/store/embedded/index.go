package embedded

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
)

// index says where the rows of the log are. It is kept in memory alone, about 60 bytes for a
// row, and made anew at each Open, which reads the whole log anyway.
type index struct {
	seeds [2]maphash.Seed
	rows  map[digest]row
	// most is how many rows there have been since their map was made: it has the memory of all.
	most int
	// undecided are the records of calls that are claimed, unknown or held, by their places.
	undecided ordered[found]
	// outputs are those that are kept, in the order in which they expire, which is that in which they
	// give way when they have more bytes than there may be of them.
	outputs                  ordered[found]
	outputBytes, mostOutputs int64
	// messages are how many each conversation has, by the digest of its head; talks their keys.
	messages map[digest]int
	talks    ordered[string]
	terms    ordered[posting]

	live ledger
}

// fewRows are so few that their memory is not worth a new map.
const fewRows = 4096

type row struct {
	place

	expires int64
}

// digest stands for a key: 128 bits, seeded per process, so that nobody can make two keys
// meet. Whoever finds a row compares its key.
type digest [2]uint64

// newIndex is that of a file with a bound, 0 for none.
func newIndex(bound int64) *index {
	return &index{
		mostOutputs: min(256<<20, cmp.Or(bound, math.MaxInt64)/3), // so that there is room for records

		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, rows: map[digest]row{}, messages: map[digest]int{},
		undecided: ordered[found]{compare: byPlace}, outputs: ordered[found]{compare: byExpiry},
		talks: ordered[string]{compare: strings.Compare}, terms: ordered[posting]{compare: posting.compare},
		live: ledger{due: map[int64]int64{}},
	}
}

func (x *index) digest(kind byte, key []byte) (d digest) {
	for i := range d {
		d[i] = maphash.Bytes(x.seeds[i], key) + uint64(kind) // so the rows of one key are apart
	}
	return d
}

// change is what a commit does to a row of the index.
type change struct {
	frame // as it was put

	of   digest
	gone bool // the row has expired, if it is still where it was
	// outdated are the postings of the row of terms before it.
	outdated []posting
}

// change follows a commit. Changes are made in the order in which they came.
func (x *index) change(c *change) {
	before, known := x.rows[c.of]
	if c.gone && before.place != c.place {
		return
	}
	now := found{c.of, row{c.place, c.expires}}
	if known {
		x.live.add(-int64(before.size), before.expires)
	}
	if !c.gone {
		x.live.add(int64(c.size), c.expires)
		x.rows[c.of] = now.row
	} else {
		delete(x.rows, c.of)
		if x.most = max(x.most, len(x.rows)); x.most > fewRows && len(x.rows) < x.most/4 {
			x.rows, x.most = maps.Collect(maps.All(x.rows)), len(x.rows)
		}
	}
	switch c.kind {
	case recordRow:
		if known {
			x.undecided.remove(found{c.of, before})
		}
		if !c.gone && dedupe.State(c.value[1]).Undecided() {
			x.undecided.put(now)
		}
	case conversationRow:
		if !c.gone {
			x.talks.put(string(c.key))
			x.messages[c.of], _ = decodeTalk(c.value)
		} else {
			x.talks.remove(string(c.key))
			delete(x.messages, c.of)
		}
	case indexRow:
		x.post(c)
	case outputRow:
		if known {
			x.outputs.remove(found{c.of, before})
			x.outputBytes -= int64(before.size)
		}
		if !c.gone {
			x.outputs.put(now)
			x.outputBytes += int64(c.size)
		}
	}
}

func (x *index) post(c *change) {
	for _, p := range c.outdated {
		x.terms.remove(p)
	}
	for _, p := range x.postings(c.frame) {
		if c.gone {
			x.terms.remove(p)
		} else {
			x.terms.put(p)
		}
	}
}

// until is when a message expires: with the head of its conversation, which may have been
// put since, or be of another by now that has not as many.
func (x *index) until(message []byte) (expires int64) {
	head, number := decodeMessageKey(message)
	of := x.digest(conversationRow, head)
	if number < x.messages[of] {
		expires = x.rows[of].expires
	}
	return expires
}

type found struct {
	of digest
	row
}

func byPlace(a, b found) int { return cmp.Compare(a.place.at, b.place.at) }

func byExpiry(a, b found) int { return cmp.Or(cmp.Compare(a.expires, b.expires), byPlace(a, b)) }

// pass says what time it is. Outputs whose time is over are dropped, and those that expire
// first until all are within their bound. The log may still have the latter: they may come back
// at the next Open.
func (x *index) pass(now int64) {
	x.live.until(now)
	for len(x.outputs.chunks) > 0 {
		first := x.outputs.chunks[0][0]
		if x.outputBytes <= x.mostOutputs && first.expires > now {
			return
		}
		x.change(&change{frame: frame{kind: outputRow, place: first.place}, of: first.of, gone: true})
	}
}

// ledger counts the bytes of what is live: what was put, and not replaced, and whose time is
// not over. That is by minutes.
type ledger struct {
	bytes int64
	due   map[int64]int64 // minute → bytes that expire in it
	now   int64           // the minute; those before it are over
}

const aMinute = 60_000 // milliseconds

func (l *ledger) add(n, expires int64) {
	if m := expires / aMinute; m >= l.now {
		l.due[m] += n
		l.bytes += n
	}
}

func (l *ledger) until(now int64) {
	if now/aMinute == l.now {
		return
	}
	l.now = now / aMinute
	for m, n := range l.due {
		if m < l.now {
			l.bytes -= n
			delete(l.due, m)
		}
	}
}

func decodeTalk(value []byte) (count int, text []byte) {
	return int(binary.BigEndian.Uint32(value)), value[4:]
}

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
	return maphash.Comparable(x.seeds[0], [...]string{tenant, string(term[:])})
}
