package backend

import "io"

// Uncounted is what a reply may hold that it has not asked for, in bytes: most replies
// ask for none.
const Uncounted = 16 << 10

// Memory is what there is for replies, of all calls together.
type Memory interface {
	// Take takes n bytes more of a reply, until the call has ended; false
	// when there is none. It never waits.
	Take(n int64) bool
}

// Fits takes memory for a reply that grows from one size to another, in bytes. What
// does not fit is not kept: the reply is cut there. A nil Memory is without a bound.
func Fits(memory Memory, from, to int64) bool {
	from, to = max(from, Uncounted), max(to, Uncounted)
	return memory == nil || from >= to || memory.Take(to-from)
}

const (
	// firstRead is how much room is made for a body of unknown length.
	firstRead = 4 << 10
	// trustedLength is the longest declared length for which room is made at
	// once: a length is a claim, and many calls may be in flight.
	trustedLength = 64 << 10
)

// ReadAll reads at most limit bytes, and no more than there is memory for; cut
// reports that there were more. declared is how many there are said to be, below 0
// where nobody says.
func ReadAll(body io.Reader, declared, limit int64, memory Memory) (read []byte, cut bool, err error) {
	first := int64(firstRead)
	if declared >= 0 {
		first = min(declared+1, trustedLength) // one more, to see the end
	}
	first = min(first, limit+1)
	if !Fits(memory, 0, first) {
		first = min(first, Uncounted)
	}
	buffer := make([]byte, 0, first)
	for {
		n, err := body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > limit:
			return buffer[:limit], true, nil
		case err == io.EOF: // only the bare one is the end
			return buffer, false, nil
		case err != nil:
			return buffer, false, err
		}
		if len(buffer) == cap(buffer) {
			size := min(2*int64(cap(buffer)), limit+1)
			if !Fits(memory, int64(cap(buffer)), size) {
				return ending(body, buffer)
			}
			grown := make([]byte, len(buffer), size)
			copy(grown, buffer)
			buffer = grown
		}
	}
}

// ending is what was read of a body for whose rest there is no memory, if it has one.
func ending(body io.Reader, read []byte) (all []byte, cut bool, err error) {
	var one [1]byte
	n, err := io.ReadFull(body, one[:])
	if err == io.EOF { // only the bare one is the end
		return read, false, nil
	}
	return read, n > 0, err
}
