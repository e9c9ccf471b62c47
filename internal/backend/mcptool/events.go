package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

// stream reads server-sent events. The rules for parsing are those of the HTML
// standard, section 9.2.6.
type stream struct {
	body  io.ReadCloser
	lines *lines.Reader
	limit int

	event
	// lastID is the id of the last event that had one, again the last word on when to ask for more.
	lastID, again string
	err           error // after the last event
}

// events reads a stream and passes on to the SDK the events that it can use: those
// that are too large, or no messages, are left out, so that they cannot end the
// session. With a capture, the answer to its request goes there and ends the stream.
type events struct {
	*stream

	wire *wire
	// cp is of the request that the stream answers; nil when it answers none.
	cp *capture
	// goesOn: it is begun again when it ends, so the SDK does not hear that it is answered.
	goesOn bool

	out bytes.Buffer // what the SDK reads next
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

// newStream reads events of at most limit bytes.
func newStream(body io.ReadCloser, limit int) *stream {
	return &stream{body: body, lines: lines.New(body, limit, 4<<10), limit: limit}
}

func newEvents(body io.ReadCloser, w *wire, cp *capture) *events {
	e := &events{stream: newStream(body, w.limit), wire: w, cp: cp}
	if cp != nil {
		e.lines.Memory = cp.memory
	}
	return e
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		if ev, ok := e.next(); ok {
			e.dispatch(ev)
		}
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

// next reads an event; false at the end of the stream.
func (s *stream) next() (ev event, ok bool) {
	for s.err == nil {
		ln, err := s.lines.Next()
		switch {
		case err != nil:
			if s.err = err; errors.Is(err, io.EOF) && s.whole() {
				return s.take(), true
			}
		case len(ln.Text) == 0:
			return s.take(), true
		default:
			s.add(ln)
		}
	}
	return event{}, false
}

// whole reports that the last event of a stream lacks nothing but its empty line. Of one that was cut off
// in its middle, the id and all, nothing has come.
func (ev *event) whole() bool { return ev.giant != nil || json.Valid(ev.message()) }

// take ends the event that is being read.
func (s *stream) take() event {
	ev := s.event
	s.event = event{}
	s.lastID, s.again = cmp.Or(ev.id, s.lastID), cmp.Or(ev.retry, s.again)
	return ev
}

// add takes a line of an event.
func (s *stream) add(ln lines.Line) {
	field, value, _ := bytes.Cut(ln.Text, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(field) {
	case "data":
		s.addData(ln, value)
	case "id":
		s.event.id = short(value)
	case "event":
		s.name = short(value)
	case "retry":
		s.retry = short(value)
	}
}

func (s *stream) addData(ln lines.Line, value []byte) {
	s.size += ln.Size
	if s.giant != nil {
		return
	}
	if ln.Giant || s.size > int64(s.limit) {
		ln.Text = value
		if s.data.Len() > 0 {
			ln.Text = bytes.Clone(s.data.Bytes()[:min(s.data.Len(), lines.KeepOfGiant)])
		}
		s.giant = &ln
		s.data = bytes.Buffer{}
		return
	}
	if s.data.Len() > 0 {
		s.data.WriteByte('\n')
	}
	s.data.Write(value)
}

// message is the message in an event; nil where it has none that can be read.
func (ev *event) message() []byte {
	if ev.giant != nil || ev.data.Len() == 0 || ev.name != "" && ev.name != "message" {
		return nil
	}
	return ev.data.Bytes()
}

// tooLarge is what is known of the message of an event that is too large.
func (ev *event) tooLarge() lines.Line {
	ln := *ev.giant
	if ln.Size, ln.Giant = ev.size, true; ln.Tail == nil {
		ln.Tail = lines.Last(ln.Text, lines.KeepOfGiant)
	}
	return ln
}

// onOneLine is a message without the ends of lines in it, whatever the server did.
func onOneLine(message []byte) []byte { return bytes.ReplaceAll(message, []byte{'\n'}, []byte{' '}) }

// short bounds the fields that should be short.
func short(value []byte) string { return string(value[:min(len(value), 1<<10)]) }

// dispatch passes on what the SDK should see of an event.
func (e *events) dispatch(ev event) {
	var msg []byte
	switch data := ev.message(); {
	case ev.giant != nil:
		msg = e.tooLarge(ev)
	case data != nil:
		msg = e.message(data)
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
		if _, answers := msg.(*jsonrpc.Response); answers && e.goesOn {
			return nil
		}
		return onOneLine(data)
	default:
		return encode(passed)
	}
}

// tooLarge returns what the SDK gets for an event that is too large.
func (e *events) tooLarge(ev event) []byte {
	ln := ev.tooLarge()
	msg := e.wire.inbox.giant(ln.Text, ln.Tail, ln.Size)
	if msg == nil {
		e.wire.log.Warn("an event that is too large was dropped", "bytes", ev.size)
		return nil
	}
	return encode(msg)
}
