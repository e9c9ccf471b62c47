package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// requestWeight is how often a request is in memory while it is worked on: as it came, as the
	// library has it twice, as a message, as its arguments, and on its way within the process.
	requestWeight = 8
	// arrivalTime is how long a request may take to arrive.
	arrivalTime = 10 * time.Second
	// smallWrite is what may be written without being counted, in bytes: refusals among it.
	smallWrite = 64 << 10
	// longRefusal is what is more than a refusal has to say, and shortRefusal what it says then, in bytes.
	longRefusal  = 4 << 10
	shortRefusal = 500
	// maxLasting bounds what is kept of a client's message for as long as its session, in bytes.
	maxLasting = 64 << 10
	// WriteTime is how long a client may take to read what is written to it.
	WriteTime = 10 * time.Second
)

var (
	errFull   = errors.New("OVERLOADED: there is no room for the request now (limits.max_held_bytes); nothing was started, send it again later")
	errUnread = errors.New("there is no room for what clients have not read (limits.max_held_bytes)")
	errText   = errors.New("the request is not valid UTF-8, as JSON is")
	errBatch  = errors.New("a batch is not taken: send each of its messages by itself")
	// errLasting is of a message that says too much of its client.
	errLasting = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the parameters have more than %d bytes, which is what is kept of them for a session", maxLasting)}
)

// lasting are the messages whose parameters the library keeps for as long as their session, uncounted.
var lasting = map[string]bool{"initialize": true, "notifications/initialized": true, "logging/setLevel": true}

func tooLong(method string, req sdk.Request) bool {
	if !lasting[method] {
		return false
	}
	params, err := json.Marshal(req.GetParams())
	return err != nil || len(params) > maxLasting
}

// Bounded is a handler under the bounds of the front, and for what is served beside it: it takes room
// for a request as it comes, and for each message that is written until it is read; both have their
// time. refuse says why a request is not let in, as http.Error does.
func (f *Front) Bounded(next http.Handler, refuse func(w http.ResponseWriter, why string, code int)) http.Handler {
	options := &f.options
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		out := &patient{ResponseWriter: w, bytes: options.Bytes}
		defer out.wait() // for what is written at the end
		if most := options.MaxRequestBytes; req.ContentLength > most {
			refuse(out, fmt.Sprintf("the request has %d bytes: limits.max_request_bytes allows %d", req.ContentLength, most), http.StatusRequestEntityTooLarge)
			return
		}
		if req.Method == http.MethodPost {
			var load limit.Load
			load.Of(options.Bytes)
			defer load.Release()
			body, code, err := arrived(out, req, options.MaxRequestBytes, &load)
			if err != nil {
				refuse(out, err.Error(), code)
				return
			}
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(out, req)
	})
}

// arrived reads the body of a request, which has its time for that: nobody else gets its room
// meanwhile.
func arrived(w http.ResponseWriter, req *http.Request, most int64, load *limit.Load) (body []byte, code int, err error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(arrivalTime)); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	var read bytes.Buffer
	_, err = read.ReadFrom(counted{http.MaxBytesReader(w, req.Body, most), load})
	body = read.Bytes()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request has more than %d bytes, which limits.max_request_bytes allows", most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, fmt.Errorf("the request did not arrive within %s; nothing was started", arrivalTime)
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		_, _ = io.CopyN(io.Discard, req.Body, most) // a client that still sends would not hear why
		return nil, http.StatusServiceUnavailable, err
	case err != nil:
		return nil, http.StatusBadRequest, err
	case bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")):
		return nil, http.StatusBadRequest, errBatch
	case !utf8.Valid(body):
		return nil, http.StatusBadRequest, errText
	}
	return body, http.StatusInternalServerError, control.SetReadDeadline(time.Time{})
}

// counted takes room for what is read.
type counted struct {
	io.Reader

	load *limit.Load
}

func (c counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	if n > 0 && !c.load.Take(requestWeight*int64(n)) {
		return 0, errFull
	}
	return n, err
}

// patient writes to a client that has its time to read. What nobody reads has room as long. A refusal is
// short, however much of its request the library repeats in it.
type patient struct {
	http.ResponseWriter

	bytes   *limit.Bytes
	refuses bool
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) wait() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(WriteTime)) // what has none waits for nobody
}

// WriteHeader implements http.ResponseWriter.
func (p *patient) WriteHeader(code int) {
	p.refuses = code >= http.StatusBadRequest
	p.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (p *patient) Write(data []byte) (int, error) {
	if p.refuses && len(data) > longRefusal {
		if _, err := p.ResponseWriter.Write(refusal(data)); err != nil {
			return 0, err
		}
		return len(data), nil
	}
	var load limit.Load
	load.Of(p.bytes)
	defer load.Release()
	if len(data) > smallWrite && !load.Take(requestWeight*int64(len(data))) {
		return 0, errUnread
	}
	p.wait()
	named := len(data) - len(bytes.TrimPrefix(data, prime))
	n, err := p.ResponseWriter.Write(data[named:])
	return n + named, err
}

// prime is the name that the library gives to the event with which a stream begins. The protocol has none, and
// clients complain of it.
var prime = []byte("event: prime\n")

// refusal is a short form of one: an error of JSON-RPC stays one.
func refusal(said []byte) []byte {
	var whole struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(said, &whole) != nil {
		return []byte(tool.ShortenBytes(string(said), shortRefusal))
	}
	if len(whole.ID) > shortRefusal {
		whole.ID = nil
	}
	whole.Error.Message = tool.ShortenBytes(whole.Error.Message, shortRefusal)
	encoded, _ := json.Marshal(whole) // of what was read of JSON
	return encoded
}

// FlushError is for http.ResponseController.
func (p *patient) FlushError() error {
	p.wait()
	return http.NewResponseController(p.ResponseWriter).Flush()
}
