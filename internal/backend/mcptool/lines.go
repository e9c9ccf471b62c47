package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// keepOfGiant is how much of the start and of the end of a message that is too
// large is kept, to find out which request it answers.
const keepOfGiant = 4 << 10

// line is one line of a stream.
type line struct {
	text []byte // without its end; the start of it when giant
	tail []byte // the end of a giant line
	size int64
	// giant: longer than the limit, or than there is room for; the middle was thrown away.
	giant bool
}

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	r     *bufio.Reader
	limit int
	room  backend.Room // nil is without a bound
}

func newLineReader(r io.Reader, limit, buffer int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, buffer), limit: limit}
}

// next returns the next line; its memory is the caller's. A last line without
// an end is returned before the error.
func (l *lineReader) next() (line, error) {
	var ln line
	for {
		chunk, err := l.r.ReadSlice('\n')
		ln.add(chunk, l.limit, l.room)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && ln.size == 0:
			return line{}, err
		case err != nil && !errors.Is(err, io.EOF):
			return line{}, err
		}
		if ln.giant {
			ln.tail = bytes.TrimRight(ln.tail, "\r\n")
		} else {
			ln.text = bytes.TrimRight(ln.text, "\r\n")
		}
		return ln, nil
	}
}

func (ln *line) add(chunk []byte, limit int, room backend.Room) {
	ln.size += int64(len(chunk))
	if !ln.giant && len(ln.text)+len(chunk) <= limit && backend.Fits(room, int64(len(ln.text)), int64(len(ln.text)+len(chunk))) {
		ln.text = append(ln.text, chunk...)
		return
	}
	if !ln.giant {
		ln.giant = true
		ln.tail = bytes.Clone(last(ln.text, keepOfGiant))
		ln.text = bytes.Clone(ln.text[:min(len(ln.text), keepOfGiant)])
		ln.text = append(ln.text, chunk[:min(len(chunk), keepOfGiant-len(ln.text))]...)
	}
	ln.tail = append(ln.tail, chunk...)
	if len(ln.tail) > 2*keepOfGiant {
		ln.tail = append(ln.tail[:0], last(ln.tail, keepOfGiant)...)
	}
}

func last(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// idAtEnd is how a response ends whose id comes after its result. The brace is
// the last one of the message, so that no id inside the result can be meant.
var idAtEnd = regexp.MustCompile(`"id"\s*:\s*([0-9]{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// identify finds the id of a response from its start and its end.
func identify(head, tail []byte) (jsonrpc.ID, bool) {
	id, isResponse := idAtStart(bytes.NewReader(head))
	if !isResponse {
		return jsonrpc.ID{}, false
	}
	if id.IsValid() {
		return id, true
	}
	m := idAtEnd.FindSubmatch(tail)
	if m == nil {
		return jsonrpc.ID{}, false
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	return makeID(float64(n)), true
}

// idAtStart reads the members of a message up to its result. isResponse is
// false for a request.
func idAtStart(message io.Reader) (id jsonrpc.ID, isResponse bool) {
	dec := json.NewDecoder(message)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return jsonrpc.ID{}, false
	}
	for {
		key, err := dec.Token()
		if err != nil {
			return id, false
		}
		switch key {
		case "method":
			return id, false
		case "result", "error":
			return id, true
		case "id":
			var v any
			if dec.Decode(&v) != nil {
				return id, false
			}
			id = makeID(v)
		default:
			var v json.RawMessage
			if dec.Decode(&v) != nil {
				return id, false
			}
		}
	}
}

// makeID is the id of a decoded JSON value; invalid when there can be no such id.
func makeID(v any) jsonrpc.ID {
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}
