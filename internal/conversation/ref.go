package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	// refMark begins the output_ref of a result that stands in a message.
	refMark = "msg_"
	// sumChars are 132 bits: who has not seen a result does not know its reference.
	sumChars = 22
)

// refOf is the output_ref of a result: where it stands, and a hash of what it says and
// of its conversation. It is read out of the message, which stays what it is: for as long
// as the conversation is kept, and whether or not the tool's output was kept apart.
func refOf(conversation string, at int64, id, text string) string {
	place := binary.AppendUvarint(nil, uint64(at))
	return refMark + sumOf(conversation, text) + base64.RawURLEncoding.EncodeToString(append(place, id...))
}

func sumOf(conversation, text string) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d\n%s%s", len(conversation), conversation, text) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))[:sumChars]
}

// IsRef reports that an output_ref is that of a result in a message.
func IsRef(ref string) bool { return strings.HasPrefix(ref, refMark) }

// Result returns what a result says that was left out of a conversation: its text, or the
// JSON of its content where that is more than a text. The error is ErrNone for a
// reference that is none of this conversation's, an *Invalid, or the store's.
func (b *Book) Result(ctx context.Context, key Key, ref string) (string, error) {
	sum, at, id, ok := placeOf(ref)
	if !ok {
		return "", ErrNone
	}
	head, messages, err := b.Load(ctx, key, at, 1)
	if err != nil || len(messages) == 0 {
		return "", outOfRange(err)
	}
	results, err := resultsIn(head.Provider, messages[0].JSON)
	if err != nil {
		return "", fmt.Errorf("%w: message %d: %w", ErrCorrupt, at, err)
	}
	for _, r := range results {
		if text := said(messages[0].JSON[r.start:r.end]); r.id == id && sumOf(key.ID, text) == sum {
			return text, nil
		}
	}
	return "", ErrNone
}

// outOfRange is the error of a message that there is not: a reference to it is nobody's.
func outOfRange(err error) error {
	if _, beyond := errors.AsType[*Invalid](err); beyond || err == nil {
		return ErrNone
	}
	return err
}

// placeOf takes a reference apart.
func placeOf(ref string) (sum string, at int64, id string, ok bool) {
	rest, ok := strings.CutPrefix(ref, refMark)
	if !ok || len(rest) < sumChars {
		return "", 0, "", false
	}
	place, err := base64.RawURLEncoding.DecodeString(rest[sumChars:])
	if err != nil {
		return "", 0, "", false
	}
	n, size := binary.Uvarint(place)
	if size <= 0 || n > 1<<53 {
		return "", 0, "", false
	}
	return rest[:sumChars], int64(n), string(place[size:]), true
}
