package output

import (
	"errors"
	"io"
	"slices"
	"sync"
)

const (
	// firstRead is the size of the pooled buffers: most bodies fit in one.
	firstRead = 32 << 10
	// growth is the factor by which a buffer grows, in steps that end exactly
	// at the limit: what is thrown away on the way is a third of it at most.
	growth = 4
	// maxEmptyReads is how many reads in a row may bring nothing.
	maxEmptyReads = 100
)

var readBuffers = sync.Pool{New: func() any { return new([firstRead]byte) }}

// ReadBounded reads r to its end, or to limit bytes. cut reports that there was
// more; that is no error. A body that is endless costs what it is allowed to
// keep, and one that is small costs its own size.
//
// err is what r failed with, other than io.EOF; data is what arrived before.
// r is left open, and after a cut not at its end.
func ReadBounded(r io.Reader, limit int64) (data []byte, cut bool, err error) {
	pooled, ok := readBuffers.Get().(*[firstRead]byte)
	if !ok {
		pooled = new([firstRead]byte)
	}
	defer readBuffers.Put(pooled)
	limit = max(limit, 0)
	buf := pooled[:min(firstRead, limit)]
	n, err := fill(r, buf)
	for err == nil && int64(len(buf)) < limit {
		size := limit
		for size/growth >= 2*int64(len(buf)) {
			size /= growth
		}
		grown := make([]byte, size)
		copy(grown, buf)
		buf = grown
		var more int
		more, err = fill(r, buf[n:])
		n += more
	}
	if err == nil {
		var one [1]byte
		var more int
		more, err = fill(r, one[:])
		cut = more > 0
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(buf) <= firstRead || n < len(buf)/2 {
		return slices.Clone(buf[:n:n]), cut, err
	}
	return buf[:n:n], cut, err
}

// fill reads until buf is full. io.EOF means that r ended before or just then.
func fill(r io.Reader, buf []byte) (n int, err error) {
	empty := 0
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
		if empty++; more > 0 {
			empty = 0
		}
		if empty > maxEmptyReads {
			return n, io.ErrNoProgress
		}
	}
	return n, err
}
