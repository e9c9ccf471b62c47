package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/sidecall/sidecall/internal/tool"
)

// Hash is the beginning of a SHA-256. 64 bits are enough to tell some tens of
// entries apart, and nobody gains by making two of them meet: it takes 2³² outputs
// of a tool to be refused a call.
type Hash uint64

// Cut is the Hash of what has been hashed already.
func Cut(sum [sha256.Size]byte) Hash { return Hash(binary.BigEndian.Uint64(sum[:])) }

// Sum is the Hash of some text. Of a result, take all of it, and before anything in
// it is made for this call only: what is shown of a result that was cut has a new
// handle every time.
func Sum(text []byte) Hash { return Cut(sha256.Sum256(text)) }

// Failure is the outcome of a call that failed: what kind of error it is, so that
// two are equal when the model learns nothing from the second.
//
//   - Of what is unknown, or transient, the code is all that was said, and it is of the
//     call alone: five payments of which nobody knows whether they happened are five of
//     their own.
//   - What the error repeats of the arguments is taken out, since "order A-17 not
//     found" says after "order A-16 not found" what was known. So are the ids that
//     machines give to their errors, and the time of day.
//   - Without what it repeats, the tool must still say something: one that fails with
//     the text that it was given fails in another way each time.
//
// The hint is no part of it. args are the decoded arguments; nil when there are none.
func Failure(e tool.Error, args any) Hash {
	if class := e.Code.Class(); class == tool.Unknown || class == tool.Transient {
		call, _ := json.Marshal(args) // which were decoded from JSON
		return Sum(append([]byte(e.Code), call...))
	}
	values := valuesOf(args)
	own := string(e.Code) + "\x00" + e.Field + "\x00" + ownWords(e.Constraint, values, 0)
	return Sum([]byte(own + "\x00" + ownWords(e.Received, values, leastLetters)))
}
