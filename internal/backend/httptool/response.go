package httptool

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html/charset"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// read turns a response into a reply, and into a failure when its status says
// so or its body does not arrive. It closes the body.
func (b *Backend) read(ctx context.Context, resp *http.Response, call backend.Invocation) (tool.Reply, *tool.Failure) {
	defer resp.Body.Close() //nolint:errcheck // read errors are seen while reading
	reply := tool.Reply{
		Status: resp.StatusCode,
		Header: flatten(resp.Header),
		Size:   resp.ContentLength,
	}
	var bodyErr error
	if resp.StatusCode >= 200 { // after 101 the body is another protocol
		bodyErr = readBody(resp, &reply, limitOf(call), call.Memory)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// The status is the answer; a body that is cut short changes nothing.
		failure := statusFailure(resp, call)
		if failure.Message == "" {
			failure.Message = tool.ShortenBytes(b.mask(backend.Message(&reply)), backend.MaxMessage)
		}
		return reply, failure
	}
	if bodyErr != nil {
		return reply, lostResult(ctx, bodyErr)
	}
	return reply, nil
}

// defaultLimit bounds a body when the call does not say.
const defaultLimit = 10 << 20

func limitOf(call backend.Invocation) int64 {
	if call.MaxBytes > 0 {
		return call.MaxBytes
	}
	return defaultLimit
}

// lostResult is a success whose body did not arrive whole: the call ran, and
// what it brought is lost. Its Status stays 0, because status is not what
// failed: error mappings are not asked.
func lostResult(ctx context.Context, err error) *tool.Failure {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, errEncoding) {
		return &tool.Failure{
			Code: tool.CodeInvalidOutput, Evidence: tool.Definite, ErrorType: "unreadable_body", Err: err,
			Constraint: "the upstream answered that it succeeded, but its answer cannot be decompressed",
		}
	}
	failure := backend.Classify(ctx, err, true)
	// Even a peer that says it processed nothing has answered already.
	failure.Evidence = tool.Ambiguous
	if failure.Code != tool.CodeTimeout && failure.Code != tool.CodeCancelled {
		failure.ErrorType = "body_cut"
		failure.Constraint = "the upstream answered that it succeeded, but the connection broke before its whole answer arrived"
	}
	return failure
}

// flatten makes a header with lower-case names, several values joined as RFC
// 9110 section 5.2 says.
func flatten(header http.Header) map[string]string {
	flat := make(map[string]string, len(header))
	for name, values := range header {
		flat[lower(name)] = strings.Join(values, ", ")
	}
	return flat
}

// lower is strings.ToLower that knows the headers nearly every response has.
func lower(name string) string {
	switch name {
	case "Content-Type":
		return "content-type"
	case "Content-Length":
		return "content-length"
	case "Date":
		return "date"
	case "Server":
		return "server"
	default:
		return strings.ToLower(name)
	}
}

var errEncoding = errors.New("unknown content encoding")

// mediaTypeOf is what a response says that its body is.
func mediaTypeOf(resp *http.Response) (mediaType string, params map[string]string) {
	declared := resp.Header.Get("Content-Type")
	if declared == "application/json" { // as most do
		return declared, nil
	}
	mediaType, params, err := mime.ParseMediaType(declared)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return "", params
	}
	return mediaType, params
}

// readBody reads at most limit bytes of the body into the reply, decompressed,
// and decides whether they are JSON, other text or neither. net/http takes
// gzip off that it asked for; the limit counts what comes out of it, so a
// compressed bomb grows to limit and no further.
func readBody(resp *http.Response, reply *tool.Reply, limit int64, memory backend.Memory) error {
	body, err := decompressed(resp)
	if err != nil {
		return err
	}
	mediaType, params := mediaTypeOf(resp)
	if isBinary(mediaType) {
		return skip(body, reply, mediaType, limit)
	}
	text, cut, err := backend.ReadAll(body, resp.ContentLength, limit, memory)
	reply.Cut = cut
	if reply.Size < int64(len(text)) {
		reply.Size = int64(len(text))
	}
	if !isText(mediaType) && looksBinary(text) {
		if mediaType == "" {
			mediaType = "application/octet-stream"
		}
		reply.Binary = mediaType
		return err
	}
	reply.Text = decodeText(text, params["charset"])
	reply.JSON = err == nil && !cut && isJSON(mediaType, reply.Text)
	return err
}

// decompressed takes off a content encoding that net/http left on: one that
// it did not ask for.
func decompressed(resp *http.Response) (io.Reader, error) {
	switch encoding := strings.ToLower(resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		resp.ContentLength = -1
		unpacked, err := gzip.NewReader(resp.Body)
		if err == io.EOF { //nolint:errorlint // no body at all, as after HEAD
			return http.NoBody, nil
		}
		return unpacked, err
	default:
		return nil, errEncoding
	}
}

// skip reads a body that is not text, to know its size and to keep the
// connection, at most limit bytes.
func skip(body io.Reader, reply *tool.Reply, mediaType string, limit int64) error {
	reply.Binary = mediaType
	n, err := io.Copy(io.Discard, io.LimitReader(body, limit+1))
	if n > limit {
		reply.Cut = true
		n = limit
	}
	if reply.Size < n {
		reply.Size = n
	}
	return err
}

// isBinary reports whether a media type is never text.
func isBinary(mediaType string) bool {
	kind, sub, _ := strings.Cut(mediaType, "/")
	switch kind {
	case "image":
		return sub != "svg+xml"
	case "audio", "video", "font", "model":
		return true
	case "application":
		switch sub {
		case "pdf", "zip", "gzip", "x-tar", "x-7z-compressed", "wasm", "protobuf", "x-protobuf", "msgpack", "cbor", "grpc":
			return true
		}
	}
	return false
}

// isText reports whether a media type declares text.
func isText(mediaType string) bool {
	return strings.HasPrefix(mediaType, "text/") || declaresJSON(mediaType) || strings.HasSuffix(mediaType, "+xml") || mediaType == "application/xml"
}

// looksBinary judges by the first KiB: text has no NUL, and is UTF-8 or at
// least has hardly any control characters.
func looksBinary(text []byte) bool {
	head := text[:min(len(text), 1024)]
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	if utf8.Valid(head[:len(head)-tornRune(head)]) {
		return false
	}
	control := 0
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			control++
		}
	}
	return control*20 > len(head)
}

// tornRune is how many bytes at the end are the start of a character that the
// slice cuts off.
func tornRune(head []byte) int {
	for n := 1; n <= min(3, len(head)); n++ {
		if c := head[len(head)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(head[len(head)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// decodeText makes UTF-8 of text in a declared or marked other charset. Text
// whose charset is not known stays as it is.
func decodeText(text []byte, label string) []byte {
	if trimmed, marked := bytes.CutPrefix(text, []byte("\xef\xbb\xbf")); marked {
		return trimmed
	}
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		label = "utf-16le"
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		label = "utf-16be"
	}
	switch {
	case label == "", strings.EqualFold(label, "utf-8"), strings.EqualFold(label, "us-ascii"):
		return text
	}
	encoding, name := charset.Lookup(label)
	if encoding == nil || name == "replacement" {
		return text
	}
	decoded, err := encoding.NewDecoder().Bytes(text)
	if err != nil {
		return text
	}
	return bytes.TrimPrefix(decoded, []byte("\ufeff"))
}

func declaresJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") || mediaType == "text/json"
}

// isJSON reports whether text is one JSON value: declared as such and true, or
// evidently an object or list that was declared as nothing in particular.
func isJSON(mediaType string, text []byte) bool {
	switch {
	case declaresJSON(mediaType):
		return jsontext.Value(text).IsValid(backend.LooseJSON...)
	case mediaType == "", mediaType == "text/plain", mediaType == "application/octet-stream":
		return backend.EvidentJSON(text)
	default:
		return false
	}
}
