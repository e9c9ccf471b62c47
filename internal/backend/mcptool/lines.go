package mcptool

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

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
