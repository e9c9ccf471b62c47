package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
)

// A list of a million empty items has three megabytes, and a hundred once each item
// has a place of its own in memory. What is read of a list is therefore bounded by
// number, and not by bytes alone.
const (
	// largeAnswer is from where on, in bytes, an answer may hold so many items that
	// they are counted first; and the SDK is not given it.
	largeAnswer = 256 << 10
	// maxItems bounds what is read of one list.
	maxItems = 20_000
)

var errNoList = errors.New("it is no list")

// items lists the items of a JSON list, so many at the most; more says that there are
// others. They share the memory of the list.
func items(list []byte, most int) (found []json.RawMessage, more bool, err error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(list), backend.LooseJSON...)
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '[' {
		return nil, false, errNoList
	}
	for decoder.PeekKind() != ']' {
		if len(found) == most {
			return found, true, nil
		}
		item, err := decoder.ReadValue()
		if err != nil {
			return nil, false, err
		}
		end := int(decoder.InputOffset())
		found = append(found, list[end-len(item):end:end])
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, false, err
	}
	if rest := list[decoder.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return nil, false, errNoList
	}
	return found, false, nil
}

// fewItems is a list of which no more than maxItems are read.
type fewItems []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler. The text is not kept by the caller.
func (f *fewItems) UnmarshalJSON(list []byte) error {
	if string(list) == "null" {
		return nil
	}
	found, _, err := items(bytes.Clone(list), maxItems)
	*f = found
	return err
}

// oversized is what the SDK gets in place of an answer that it waits for itself, and
// that is too large for one of the handshake.
func oversized(id jsonrpc.ID, size int64) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the answer has %d bytes, more than is read", size)}}
}
