package mcptool

import (
	"bytes"
	"errors"
	"io"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

// events reads a stream of server-sent events and passes on to the SDK the ones
// that it can use: events that are too large, or no messages, are left out, so
// that they cannot end the session. With a capture, the answer to its request
// goes there and ends the stream.
//
// The rules for parsing are those of the HTML standard, section 9.2.6.
type events struct {
	body  io.ReadCloser
	lines *lines.Reader
	wire  *wire

	// cp is of the request that the stream answers; nil when it answers none.
	cp *capture

	event
	// lastID is the id of the last event that had one.
	lastID string
	out    bytes.Buffer // what the SDK reads next
	err    error        // then this
}

// event is an event that is being read.
type event struct {
	data  bytes.Buffer
	id    string
	name  string
	retry string
	size  int64
	giant *lines.Line // the line that made the event too large
}

func newEvents(body io.ReadCloser, w *wire, cp *capture) *events {
	from := lines.New(body, w.limit, 4<<10)
	if cp != nil {
		from.Room = cp.room
	}
	return &events{body: body, lines: from, wire: w, cp: cp}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.next()
	}
	return e.out.Read(p)
}

// Close implements io.Closer. It reads the end of a stream that should be over,
// so that the connection can be used again; the body bounds how long.
func (e *events) Close() error {
	if e.answered() {
		_, _ = io.CopyN(io.Discard, e.body, 4<<10) // as far as it goes
	}
	return e.body.Close()
}

// answered reports whether the request of the stream has its answer, behind which
// nothing is read.
func (e *events) answered() bool { return e.cp != nil && e.cp.settled() }

// next reads one line.
func (e *events) next() {
	ln, err := e.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			e.dispatch() // a last event without its empty line
		}
		if e.err == nil {
			e.err = err
		}
		return
	}
	if len(ln.Text) == 0 {
		e.dispatch()
		return
	}
	field, value, _ := bytes.Cut(ln.Text, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(field) {
	case "data":
		e.addData(ln, value)
	case "id":
		e.event.id = short(value)
	case "event":
		e.name = short(value)
	case "retry":
		e.retry = short(value)
	}
}

func (e *events) addData(ln lines.Line, value []byte) {
	e.size += ln.Size
	if e.giant != nil {
		return
	}
	if ln.Giant || e.size > int64(e.wire.limit) {
		ln.Text = value
		if e.data.Len() > 0 {
			ln.Text = bytes.Clone(e.data.Bytes()[:min(e.data.Len(), lines.KeepOfGiant)])
		}
		e.giant = &ln
		e.data = bytes.Buffer{}
		return
	}
	if e.data.Len() > 0 {
		e.data.WriteByte('\n')
	}
	e.data.Write(value)
}

// short bounds the fields that should be short.
func short(value []byte) string { return string(value[:min(len(value), 1<<10)]) }

// dispatch ends an event and passes on what the SDK should see of it.
func (e *events) dispatch() {
	ev := e.event
	e.event = event{}
	if ev.id != "" {
		e.lastID = ev.id
	}
	var msg []byte
	switch {
	case ev.giant != nil:
		msg = e.tooLarge(ev)
	case ev.data.Len() > 0 && (ev.name == "" || ev.name == "message"):
		msg = e.message(ev.data.Bytes())
	}
	if e.answered() {
		e.err = io.EOF
	}
	if msg == nil && ev.id == "" && ev.retry == "" {
		return
	}
	field := func(name, value string) {
		if value != "" {
			e.out.WriteString(name + ": " + value + "\n")
		}
	}
	field("id", ev.id)
	field("retry", ev.retry)
	if msg != nil {
		e.out.WriteString("data: ")
		e.out.Write(msg)
		e.out.WriteByte('\n')
	}
	e.out.WriteByte('\n')
}

// message returns what the SDK gets for a message: nothing for what is no
// message or not wanted.
func (e *events) message(data []byte) []byte {
	msg, err := decode(data)
	if err != nil {
		e.wire.log.Debug("an event that is no message was dropped", "bytes", len(data), "error", err)
		return nil
	}
	size, counted := int64(len(data)), int64(0)
	if e.cp != nil {
		counted = size // line by line
	}
	switch passed := e.wire.inbox.accept(msg, size, counted); passed {
	case nil:
		return nil
	case msg:
		// On one line, whatever the server did.
		return bytes.ReplaceAll(data, []byte{'\n'}, []byte{' '})
	default:
		return encode(passed)
	}
}

// tooLarge returns what the SDK gets for an event that is too large.
func (e *events) tooLarge(ev event) []byte {
	tail := ev.giant.Tail
	if tail == nil {
		tail = lines.Last(ev.giant.Text, lines.KeepOfGiant)
	}
	msg := e.wire.inbox.giant(ev.giant.Text, tail, ev.size)
	if msg == nil {
		e.wire.log.Warn("an event that is too large was dropped", "bytes", ev.size)
		return nil
	}
	return encode(msg)
}
