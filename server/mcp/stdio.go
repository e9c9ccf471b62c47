package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
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
	w := &lineWriter{out: out}
	return &sdk.IOTransport{Reader: &messages{ReadCloser: in, lines: lines.New(in, maxLine, smallWrite), refuse: w.refuse}, Writer: w}
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
			m.rest = append(text, '\n')
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
