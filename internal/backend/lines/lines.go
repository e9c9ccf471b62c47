// Package lines reads lines of any length in bounded memory.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/sidecall/sidecall/internal/backend"
)

// KeepOfGiant is how much of the start and of the end of a message that is too
// large is kept, to find out which request it answers.
const KeepOfGiant = 4 << 10

// Line is one line of a stream.
type Line struct {
	Text []byte // without its end; the start of it when Giant
	Tail []byte // the end of a giant line
	Size int64
	// Giant: longer than the limit, or than there is room for; the middle was thrown away.
	Giant bool
}

// Reader reads lines of any length in bounded memory.
type Reader struct {
	r     *bufio.Reader
	limit int
	// Memory there is for a line below the limit; nil is without a bound.
	Memory backend.Memory
}

// New returns a reader of lines of at most limit bytes, through a buffer.
func New(r io.Reader, limit, buffer int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, buffer), limit: limit}
}

// Next returns the next line; its memory is the caller's. A last line without
// an end is returned before the error.
func (l *Reader) Next() (Line, error) {
	var ln Line
	for {
		chunk, err := l.r.ReadSlice('\n')
		ln.add(chunk, l.limit, l.Memory)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && ln.Size == 0:
			return Line{}, err
		case err != nil && !errors.Is(err, io.EOF):
			return Line{}, err
		}
		if ln.Giant {
			ln.Tail = bytes.TrimRight(ln.Tail, "\r\n")
		} else {
			ln.Text = bytes.TrimRight(ln.Text, "\r\n")
		}
		return ln, nil
	}
}

func (ln *Line) add(chunk []byte, limit int, memory backend.Memory) {
	ln.Size += int64(len(chunk))
	if !ln.Giant && len(ln.Text)+len(chunk) <= limit && backend.Fits(memory, int64(len(ln.Text)), int64(len(ln.Text)+len(chunk))) {
		ln.Text = append(ln.Text, chunk...)
		return
	}
	if !ln.Giant {
		ln.Giant = true
		ln.Tail = bytes.Clone(Last(ln.Text, KeepOfGiant))
		ln.Text = bytes.Clone(ln.Text[:min(len(ln.Text), KeepOfGiant)])
		ln.Text = append(ln.Text, chunk[:min(len(chunk), KeepOfGiant-len(ln.Text))]...)
	}
	ln.Tail = append(ln.Tail, chunk...)
	if len(ln.Tail) > 2*KeepOfGiant {
		ln.Tail = append(ln.Tail[:0], Last(ln.Tail, KeepOfGiant)...)
	}
}

// Last is the end of a text.
func Last(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
