package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Term is something that calls of a tenant can be found by: the hash of its kind, a name and a
// value, so that no value stands in an index.
type Term [16]byte

// MaxTerms is how many terms a call may be found by: its id, its conversation, 16 labels and 20
// values of each of 4 arguments.
const MaxTerms = 98

// Bounds of a page of Find.
const (
	MaxFound      = 1000    // calls
	MaxFoundBytes = 8 << 20 // of their results: it ends with the call that has more
)

// TermOf returns the term of a value under a name. The kind keeps names apart that come from
// elsewhere: those of arguments and those of labels, say.
func TermOf(tenant, kind, name, value string) Term {
	var buffer [256]byte
	b := buffer[:0]
	for _, part := range [...]string{tenant, kind, name, value} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return Term(sum[:len(Term{})])
}

// IndexKeep is how long a call can be found at least, from its claim on, whose records are kept
// for a retention: longer than its record, so that what is forgotten is not told as never seen.
func IndexKeep(retention time.Duration) time.Duration { return min(3*retention, longest) }

// Search asks for the calls that a term is of.
type Search struct {
	Tenant string
	Term   Term
	// Conversation leaves out the calls of others; empty for all. Those of one lie together: a
	// store need not look elsewhere.
	Conversation string
	Since        time.Time // leaves out those that were claimed before; zero for all
	From         string    // empty, or the Next of the page before
	Most         int       // calls of the page at the most, 1 to MaxFound
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (s *Search) Validate() error {
	return between("calls of a page", s.Most, 1, MaxFound)
}
