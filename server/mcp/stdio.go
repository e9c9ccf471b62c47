package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on stdio, in bytes.
const maxLine = sdk.DefaultMaxLineLength

// Stdio is the transport of a client on a process's input and output. What is no message is refused, and the
// session goes on: the library would end it, and with it the answers that are on their way.
func Stdio(in io.ReadCloser, out io.Writer) sdk.Transport {
	w := &lineWriter{out: out}
	lines := &sdk.IOTransport{Reader: &messages{ReadCloser: in, lines: bufio.NewReaderSize(in, smallWrite), refuse: w.refuse}, Writer: w}
	return connects(func(ctx context.Context) (sdk.Connection, error) {
		conn, err := lines.Connect(ctx)
		return &bounding{Connection: conn, underWay: make(map[jsonrpc.ID]bool)}, err
	})
}

// connects is a transport.
type connects func(context.Context) (sdk.Connection, error)

// Connect implements sdk.Transport.
func (c connects) Connect(ctx context.Context) (sdk.Connection, error) { return c(ctx) }

// maxUnderWay bounds the requests of a client on stdio that have no answer yet, or one that it has not read.
const maxUnderWay = 4096

var errUnderWay = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("OVERLOADED: %d requests are under way, or their answers are not read; nothing was started, send it again later", maxUnderWay)}

// bounding is a connection that refuses more requests: the library takes all that come. Who does not read is
// heard no more, once the refusals are not read either.
type bounding struct {
	sdk.Connection

	mu       sync.Mutex
	underWay map[jsonrpc.ID]bool
}

// Read implements sdk.Connection.
func (b *bounding) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := b.Connection.Read(ctx)
		req, ok := msg.(*jsonrpc.Request)
		if err != nil || !ok || !req.IsCall() || b.enter(req.ID) {
			return msg, err
		}
		if err := b.Connection.Write(ctx, &jsonrpc.Response{ID: req.ID, Error: errUnderWay}); err != nil {
			return nil, err
		}
	}
}

func (b *bounding) enter(id jsonrpc.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.underWay) >= maxUnderWay {
		return false
	}
	b.underWay[id] = true
	return true
}

// Write implements sdk.Connection.
func (b *bounding) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := b.Connection.Write(ctx, msg)
	if res, ok := msg.(*jsonrpc.Response); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.underWay, res.ID)
	}
	return err
}

// messages reads the lines that are messages.
type messages struct {
	io.ReadCloser

	lines  *bufio.Reader
	refuse func(code int64, why error) error
	rest   []byte // of the line that is being read
}

// Read implements io.Reader.
func (m *messages) Read(into []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		switch {
		case errors.Is(err, errLine):
			err = m.refuse(jsonrpc.CodeInvalidRequest, err)
		case len(bytes.TrimSpace(line)) == 0 || err != nil && !errors.Is(err, io.EOF):
		default:
			code, why := noMessage(line)
			if why == nil {
				m.rest, err = line, nil
			} else if wrong := m.refuse(code, why); wrong != nil {
				err = wrong
			}
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(into, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

var errLine = fmt.Errorf("the message has more than %d bytes", maxLine)

// line is the next one; errLine where it was too long, and is left out.
func (m *messages) line() (line []byte, err error) {
	for long := false; ; {
		part, err := m.lines.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && err == nil:
			return nil, errLine
		default:
			return line, err
		}
	}
}

// noMessage says why a line is none; nil for one that is.
func noMessage(line []byte) (code int64, why error) {
	if !utf8.Valid(line) {
		return jsonrpc.CodeParseError, errText
	}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		return jsonrpc.CodeInvalidRequest, errBatch
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		if !json.Valid(line) {
			return jsonrpc.CodeParseError, errors.New("the line is no JSON")
		}
		return jsonrpc.CodeInvalidRequest, fmt.Errorf("the line is no message of JSON-RPC: %s", shortened(err.Error(), shortRefusal))
	}
	return 0, nil
}

// lineWriter writes whole lines, whoever writes them.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

// Close implements io.Closer. The process's output ends with it.
func (w *lineWriter) Close() error { return nil }

// refuse answers what is no request, and has no id.
func (w *lineWriter) refuse(code int64, why error) error {
	said, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why.Error()}})
	if err != nil {
		return err
	}
	_, err = w.Write(append(said, '\n'))
	return err
}
