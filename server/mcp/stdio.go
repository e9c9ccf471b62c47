package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxLine bounds a message on stdio, in bytes.
const maxLine = sdk.DefaultMaxLineLength

// Stdio is the transport of a client on a process's input and output. What is no message is refused, and the
// session goes on: the library would end it, and with it the answers that are on their way.
func Stdio(in io.ReadCloser, out io.Writer) sdk.Transport {
	w := &lineWriter{out: out, left: make(chan struct{})}
	return &sdk.IOTransport{Reader: &messages{ReadCloser: in, lines: lines.New(in, maxLine, smallWrite), refuse: w.refuse}, Writer: w}
}

// connects is a transport.
type connects func(context.Context) (sdk.Connection, error)

// Connect implements sdk.Transport.
func (c connects) Connect(ctx context.Context) (sdk.Connection, error) { return c(ctx) }

// maxUnderWay bounds the requests of a client on a transport that have no answer yet, or one that it has not read.
const maxUnderWay = 4096

var errUnderWay = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("OVERLOADED: %d requests are under way, or their answers are not read; nothing was started, send it again later", maxUnderWay)}

// bounding is a connection that refuses more requests: the library takes all that come. Who does not read is
// heard no more, once the refusals are not read either. A client that closes its end is answered all that it has
// asked before, for which the library would wait no longer; it is asked for nothing any more.
type bounding struct {
	sdk.Connection

	mu       sync.Mutex
	changed  sync.Cond           // less is under way, more is asked, or it is closed
	underWay map[jsonrpc.ID]bool // requests of the client; true of those that end by themselves
	asked    map[jsonrpc.ID]bool // requests to it
	closed   bool
	over     bool // nothing more comes; for Read alone
}

func newBounding(conn sdk.Connection) *bounding {
	b := &bounding{Connection: conn, underWay: make(map[jsonrpc.ID]bool), asked: make(map[jsonrpc.ID]bool)}
	b.changed.L = &b.mu
	return b
}

var errLeft = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has closed its end, and answers nothing any more"}

// Read implements sdk.Connection.
func (b *bounding) Read(ctx context.Context) (jsonrpc.Message, error) {
	for !b.over {
		msg, err := b.Connection.Read(ctx)
		if b.over = errors.Is(err, io.EOF); b.over {
			break
		}
		req, ok := msg.(*jsonrpc.Request)
		if res, answers := msg.(*jsonrpc.Response); answers {
			b.note(func() { delete(b.asked, res.ID) })
		}
		if err != nil || !ok || !req.IsCall() || b.enter(req) {
			return msg, err
		}
		if err := b.Connection.Write(ctx, &jsonrpc.Response{ID: req.ID, Error: errUnderWay}); err != nil {
			return nil, err
		}
	}
	return b.rest()
}

// rest answers what a client is asked that has closed its end, until nothing of it is under way.
func (b *bounding) rest() (jsonrpc.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for id := range b.asked {
			delete(b.asked, id)
			return &jsonrpc.Response{ID: id, Error: errLeft}, nil
		}
		if b.closed || !slices.Contains(slices.Collect(maps.Values(b.underWay)), true) {
			return nil, io.EOF
		}
		b.changed.Wait()
	}
}

func (b *bounding) note(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.changed.Broadcast()
}

func (b *bounding) enter(req *jsonrpc.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.underWay) >= maxUnderWay {
		return false
	}
	b.underWay[req.ID] = req.Method != "subscriptions/listen"
	return true
}

// Write implements sdk.Connection.
func (b *bounding) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		b.note(func() { b.asked[req.ID] = true })
	} else if ok && req.Method == "notifications/cancelled" { // nobody waits for the answer any more
		var of struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(req.Params, &of) == nil {
			if id, err := jsonrpc.MakeID(of.RequestID); err == nil {
				b.note(func() { delete(b.asked, id) })
			}
		}
	}
	err := b.Connection.Write(ctx, msg)
	if res, ok := msg.(*jsonrpc.Response); ok {
		b.note(func() { delete(b.underWay, res.ID) })
	}
	return err
}

// Close implements sdk.Connection.
func (b *bounding) Close() error {
	b.note(func() { b.closed = true })
	return b.Connection.Close()
}

// messages reads the lines that are messages.
type messages struct {
	io.ReadCloser

	lines  *lines.Reader
	refuse func(code int64, why error) error
	rest   []byte // of the line that is being read
}

// Read implements io.Reader.
func (m *messages) Read(into []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.lines.Next()
		if err != nil {
			return 0, err
		}
		text := bytes.TrimSpace(line.Text)
		code, why := noMessage(text, line.Giant)
		switch {
		case why != nil:
			if err := m.refuse(code, why); err != nil {
				return 0, err
			}
		case len(text) > 0: // without what stood around it, over which the library ends the session
			text = append(text, '\n')
			m.rest = text
		}
	}
	n := copy(into, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// noMessage says why a line is none; nil for one that is, or is empty.
func noMessage(text []byte, giant bool) (code int64, why error) {
	switch {
	case giant:
		return jsonrpc.CodeInvalidRequest, fmt.Errorf("the message has more than %d bytes", maxLine)
	case len(text) == 0:
		return 0, nil
	case !utf8.Valid(text):
		return jsonrpc.CodeParseError, errText
	case text[0] == '[':
		return jsonrpc.CodeInvalidRequest, errBatch
	case !json.Valid(text): // the library looks at no more of it than a message
		return jsonrpc.CodeParseError, errors.New("the line is no JSON")
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return jsonrpc.CodeInvalidRequest, fmt.Errorf("the line is no message of JSON-RPC: %s", tool.ShortenBytes(err.Error(), shortRefusal))
	}
	return 0, nil
}

// lastRead is how long a client has to read what is being written to it when its session ends.
const lastRead = 2 * time.Second

var errUnreadAtEnd = fmt.Errorf("it has not read what was said to it, within %s of the end", lastRead)

// lineWriter writes whole lines, whoever writes them.
type lineWriter struct {
	mu   sync.Mutex
	out  io.Writer
	once sync.Once
	left chan struct{} // closed when a client that does not read is waited for no longer
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := make(chan error, 1)
	go func() { // ends with the process, where nobody reads
		_, err := w.out.Write(line)
		written <- err
	}()
	select {
	case err := <-written:
		return len(line), err
	case <-w.left:
		return 0, errUnreadAtEnd
	}
}

// Close implements io.Closer. The process's output ends with it.
func (w *lineWriter) Close() error {
	w.once.Do(func() { time.AfterFunc(lastRead, func() { close(w.left) }) })
	return nil
}

// refuse answers what is no request, and has no id.
func (w *lineWriter) refuse(code int64, why error) error {
	said, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why.Error()}})
	if err != nil {
		return err
	}
	_, err = w.Write(append(said, '\n'))
	return err
}
