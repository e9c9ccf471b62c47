package mcptool

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// idAtEnd is how a message ends whose id comes last, or last but the version. The brace is the
// last one of the message, so that no id inside the result can be meant.
var idAtEnd = regexp.MustCompile(`"id"\s*:\s*("(?:[^"\\]|\\.){1,200}"|-?[0-9]{1,17})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// OfGiant is what can be told of a message that is too long to be read, by its start and its end:
// its id, nil where it has none or none that can be, and whether it is an answer.
func OfGiant(head, tail []byte) (id jsontext.Value, answers bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(head), backend.LooseJSON...)
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '{' {
		return nil, false
	}
	answers = true // what is no request, nor a note
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		answers = answers && key != "method" && key != "params"
		value, err := decoder.ReadValue()
		if err != nil {
			break // what is long
		}
		if key == "id" {
			id = value.Clone()
		}
	}
	if id == nil {
		if found := idAtEnd.FindSubmatch(tail); found != nil {
			id = found[1]
		}
	}
	if kind := id.Kind(); kind != '"' && kind != '0' {
		id = nil
	}
	return id, answers
}

// identify finds the id of the answer that a long message is. The ids of what the SDK asks are numbers.
func identify(head, tail []byte) (id jsonrpc.ID, ok bool) {
	raw, answers := OfGiant(head, tail)
	return idOf(raw), answers && raw.Kind() == '0'
}

// idOf is an id as the SDK has it; not valid where there is none.
func idOf(raw jsontext.Value) (id jsonrpc.ID) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		id, _ = jsonrpc.MakeID(value) // not valid where it fails
	}
	return id
}
