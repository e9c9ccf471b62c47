package mcptool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
)

// outgoing is a message as far as the headers of its request say it again, which the revision of
// 2026-07-28 demands.
type outgoing struct {
	text []byte
	// stateless: it is of that revision or a later one. schema is that of the arguments of the tool
	// that it calls.
	stateless bool
	schema    json.RawMessage

	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params outgoingParams `json:"params"`
}

type outgoingParams struct {
	Name      string         `json:"name"`
	URI       string         `json:"uri"`
	Arguments jsontext.Value `json:"arguments"`
	RequestID jsontext.Value `json:"requestId"`
	Meta      struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
}

// readOutgoing reads a message as far as it can be read: what is wrong is the server's to say.
func readOutgoing(text []byte) outgoing {
	m := outgoing{text: text}
	_ = jsonv2.Unmarshal(text, &m, backend.LooseJSON...)
	return m
}

func (m *outgoing) of(method string) bool { return m.Method == method }

// asks reports that a message wants an answer.
func (m *outgoing) asks() bool { return m.Method != "" && len(m.ID) > 0 && m.ID.Kind() != 'n' }

// answeredBy reports that an id is that of the request, if there is one.
func (m *outgoing) answeredBy(id json.RawMessage) bool {
	return m != nil && idOf(jsontext.Value(id)) == idOf(m.ID)
}

func (m *outgoing) body() io.ReadCloser { return io.NopCloser(bytes.NewReader(m.text)) }

// describe sets the headers that say the message again.
func (m *outgoing) describe(header http.Header) {
	if m.Method == "" {
		return
	}
	header.Set("Mcp-Method", m.Method)
	switch m.Method {
	case methodCall, "prompts/get":
		header.Set("Mcp-Name", headerText(m.Params.Name))
	case "resources/read":
		header.Set("Mcp-Name", headerText(m.Params.URI))
	}
	if m.Method == methodCall {
		var root property
		_ = json.Unmarshal(m.schema, &root) // as far as it is a schema
		root.describe(header, json.RawMessage(m.Params.Arguments))
	}
}

// token is what the name of a header is made of.
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// property is what is looked at of a schema: which arguments a header says again.
type property struct {
	Header     any                 `json:"x-mcp-header"`
	Properties map[string]property `json:"properties"`
}

func (p property) describe(header http.Header, value json.RawMessage) {
	if name, ok := p.Header.(string); ok && token.MatchString(name) {
		if text, ok := headerValue(value); ok {
			header.Set("Mcp-Param-"+name, text)
		}
	}
	if len(p.Properties) == 0 {
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		if member, there := members[name]; there {
			p.Properties[name].describe(header, member)
		}
	}
}

// safeInteger bounds the integers that a header may have: JavaScript knows no larger ones.
const safeInteger = 1<<53 - 1

// headerValue is an argument as a header has it: texts, booleans and integers.
func headerValue(value json.RawMessage) (string, bool) {
	switch jsontext.Value(value).Kind() {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return headerText(text), err == nil
	case 't', 'f':
		return strings.TrimSpace(string(value)), true
	case '0':
		number, err := strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
		if err != nil || number != math.Trunc(number) || math.Abs(number) > safeInteger {
			return "", false
		}
		return strconv.FormatInt(int64(number), 10), true
	default:
		return "", false
	}
}

// The form of what a header cannot have as it is.
const encodedPrefix, encodedSuffix = "=?base64?", "?="

// headerText is a text as a header has it. An empty one is encoded too: libraries take a header
// that is there and empty for one that is missing.
func headerText(text string) string {
	plain := text != "" && strings.TrimSpace(text) == text && !strings.HasPrefix(text, encodedPrefix) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	if plain {
		return text
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + encodedSuffix
}
