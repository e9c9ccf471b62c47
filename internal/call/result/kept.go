package result

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

// Outputs reads what responses had no room for: what was kept when a result was
// cut, and, of results that did not fit beside others, the record of the call.
type Outputs struct {
	Dedupe *dedupe.Dedupe
	// Book has the results that were left out of conversations; nil has none.
	Book *conversation.Book
}

// Read returns what a handle stands for in one of the conversations of a tenant;
// dedupe.ErrNoOutput when it stands for nothing there, or nothing any more.
func (o Outputs) Read(ctx context.Context, tenant, of, handle string) (output.Kept, error) {
	if conversation.IsRef(handle) && o.Book != nil {
		return o.leftOut(ctx, conversation.Key{Tenant: tenant, ID: of}, handle)
	}
	ref, part := output.SplitRef(handle)
	if key, sum, ok := recorded(ref); ok {
		if key.Conversation != of {
			return output.Kept{}, dedupe.ErrNoOutput
		}
		key.Tenant = tenant
		return o.recorded(ctx, key, sum, part)
	}
	if !output.IsOf(ref, of) {
		return output.Kept{}, dedupe.ErrNoOutput
	}
	stored, err := o.Dedupe.Output(ctx, tenant, ref)
	if err != nil {
		return output.Kept{}, err
	}
	kept, ok := output.Open(stored.Data, stored.Complete, part)
	if !ok {
		return kept, dedupe.ErrNoOutput
	}
	return kept, nil
}

// leftOut is a result that stands in a message.
func (o Outputs) leftOut(ctx context.Context, key conversation.Key, handle string) (output.Kept, error) {
	text, err := o.Book.Result(ctx, key, handle)
	switch {
	case errors.Is(err, conversation.ErrNone):
		return output.Kept{}, dedupe.ErrNoOutput
	case err != nil:
		return output.Kept{}, err
	}
	return output.Kept{Data: []byte(text), Complete: true}, nil
}

// recorded is a part of the result in a record. sum is that of the result, or
// what a call has returned could be read by whoever guesses its ids.
func (o Outputs) recorded(ctx context.Context, key tool.CallID, sum, part string) (output.Kept, error) {
	record, err := o.Dedupe.Lookup(ctx, key)
	if err != nil {
		return output.Kept{}, err
	}
	res := &Response{}
	if proto.Unmarshal(record.Result, res) != nil || digest(res) != sum {
		return output.Kept{}, dedupe.ErrNoOutput
	}
	kept := output.Kept{Complete: true}
	switch number, err := strconv.Atoi(part); {
	case part == "":
		kept.Data = []byte(res.GetContent())
	case part == structuredPart:
		kept.MediaType, kept.Data = "application/json", []byte(res.GetStructuredContentJson())
	case err != nil || number < 1 || number > len(res.GetBlocks()):
		return output.Kept{}, dedupe.ErrNoOutput
	default:
		b := res.GetBlocks()[number-1]
		if kept.Data = []byte(b.GetText()); len(b.GetData()) > 0 {
			kept.MediaType, kept.Data = b.GetMimeType(), b.GetData()
		}
	}
	return kept, nil
}

const (
	// recordMark begins the handle of a recorded result.
	recordMark = "rec_"
	// sumChars is the length of a digest.
	sumChars = 22
	// structuredPart is the part of a result that is its structured content.
	structuredPart = "structured"
)

// recordRef is the handle of the recorded result of a call.
func recordRef(key tool.CallID, res *Response) string {
	var b []byte
	for _, id := range [...]string{key.Conversation, key.Turn, key.ID} {
		b = binary.AppendUvarint(b, uint64(len(id)))
		b = append(b, id...)
	}
	return recordMark + digest(res) + base64.RawURLEncoding.EncodeToString(b)
}

// recorded takes the handle of a recorded result apart.
func recorded(ref string) (key tool.CallID, sum string, ok bool) {
	rest, ok := strings.CutPrefix(ref, recordMark)
	if !ok || len(rest) < sumChars {
		return key, "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(rest[sumChars:])
	if err != nil {
		return key, "", false
	}
	for _, id := range [...]*string{&key.Conversation, &key.Turn, &key.ID} {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return key, "", false
		}
		*id, b = string(b[n:n+int(length)]), b[n+int(length):]
	}
	return key, rest[:sumChars], key.ID != "" && len(b) == 0
}

// digest is what only who has seen a result knows.
func digest(res *Response) string {
	hash := sha256.New()
	add := func(data []byte) {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		hash.Write(data)
	}
	add([]byte(res.GetContent()))
	add([]byte(res.GetStructuredContentJson()))
	for _, b := range res.GetBlocks() {
		add(b.GetData())
		add([]byte(b.GetText()))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil))[:sumChars]
}
