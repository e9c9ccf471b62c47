package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
)

// A document is a bucket of its own: a head, and messages in pieces under their number
// and that of the piece. In one value it would share its page with others, and each
// change beside it would write them all again. What is appended comes behind, so that
// what is there already is not written again. A conversation is one, and an output is
// one of a single message.
const (
	pieceSize     = 64 << 10
	pieceKeyBytes = 8 + 4
)

var headKey = []byte("head")

// head is when all of a document expires, how many messages there are, how many bytes
// they have, and a text that is its owner's.
type head struct {
	expires         int64 // milliseconds
	messages, bytes int64
	text            []byte
}

func (h *head) encode() []byte {
	b := make([]byte, 0, 3*8+len(h.text))
	for _, n := range [...]int64{h.expires, h.messages, h.bytes} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, h.text...)
}

func decodeHead(value []byte) (head, error) {
	if len(value) < 3*8 {
		return head{}, fmt.Errorf("%w: the head of a document", dedupe.ErrCorrupt)
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(value[at:])) }
	return head{expires: number(0), messages: number(8), bytes: number(16), text: value[24:]}, nil
}

// pieceKey names a piece of a message.
func pieceKey(message int64, piece int) []byte {
	return binary.BigEndian.AppendUint32(bigEndian(uint64(message)), uint32(piece))
}

// document is one with its bucket, nil where there is none.
type document struct {
	head

	key    []byte
	bucket *bbolt.Bucket
}

// openDocument returns a document, be its time over.
func openDocument(from *bbolt.Bucket, key []byte) (document, error) {
	d := document{key: key, bucket: from.Bucket(key)}
	if d.bucket == nil {
		return d, nil
	}
	value, err := verified(slices.Concat(key, headKey), d.bucket.Get(headKey))
	if err != nil {
		return document{}, fmt.Errorf("%w: the head of a document", err)
	}
	d.head, err = decodeHead(value)
	return d, err
}

// document returns a document as of now.
func (t *txn) document(from *bbolt.Bucket, key []byte) (document, error) {
	d, err := openDocument(from, key)
	if err != nil || !t.now.Before(dedupe.Instant(d.expires)) {
		return document{key: key}, err
	}
	return d, nil
}

// begin makes a document, in the place of one that has expired. The place in the queue
// of that one is then its own, and corrected when it is due.
func (t *txn) begin(in, expiry *bbolt.Bucket, key []byte, ttl time.Duration) (d document, err error) {
	err = in.DeleteBucket(key)
	if errors.Is(err, berrors.ErrBucketNotFound) {
		err = t.queue(expiry, t.now.Add(ttl), key)
	}
	if err != nil {
		return document{}, err
	}
	d.key = key
	d.bucket, err = in.CreateBucket(key)
	return d, err
}

// append writes messages behind those that are there, and the head.
func (d *document) append(messages [][]byte, text []byte, expires time.Time) error {
	d.bucket.FillPercent = fullPages
	for _, message := range messages {
		for n, rest := 0, message; n == 0 || len(rest) > 0; n++ {
			piece := rest[:min(pieceSize, len(rest))]
			rest = rest[len(piece):]
			name := pieceKey(d.messages, n)
			if err := d.bucket.Put(name, sealed(slices.Concat(d.key, name), piece)); err != nil {
				return err
			}
		}
		d.messages++
		d.bytes += int64(len(message))
	}
	d.expires, d.text = dedupe.Millis(expires), text
	return d.bucket.Put(headKey, sealed(slices.Concat(d.key, headKey), d.encode()))
}

// read puts a message together.
func (d *document) read(at int64) ([]byte, error) {
	prefix := bigEndian(uint64(at))
	var pieces [][]byte
	c := d.bucket.Cursor()
	for name, value := c.Seek(prefix); len(name) == pieceKeyBytes && bytes.HasPrefix(name, prefix); name, value = c.Next() {
		if !bytes.Equal(name, pieceKey(at, len(pieces))) {
			break
		}
		piece, err := verified(slices.Concat(d.key, name), value)
		if err != nil {
			return nil, fmt.Errorf("%w: a message of a document", err)
		}
		pieces = append(pieces, piece)
	}
	if len(pieces) == 0 {
		return nil, fmt.Errorf("%w: a message of a document is missing", dedupe.ErrCorrupt)
	}
	return bytes.Join(pieces, nil), nil
}

// document checks one, and that all its pieces are there.
func (c *checker) document(bucket, key, value []byte) error {
	var h head
	var messages, size int64
	headed := false
	next := 0 // piece of the message before
	err := c.bucket(value, func(name, value []byte, isBucket bool) error {
		body, err := verified(slices.Concat(key, name), value)
		switch {
		case err != nil:
			return err
		case isBucket:
			return corrupt("a value in %s is damaged", bucket)
		case bytes.Equal(name, headKey):
			headed = true
			h, err = decodeHead(body)
			return err
		case bytes.Equal(name, pieceKey(messages, 0)):
			messages++
			next = 1
		case messages > 0 && bytes.Equal(name, pieceKey(messages-1, next)):
			next++
		default:
			return corrupt("a piece in %s is missing", bucket)
		}
		size += int64(len(body))
		return nil
	})
	if err == nil && (!headed || h.messages != messages || h.bytes != size) {
		err = corrupt("of %d messages and %d bytes in %s there are %d and %d", h.messages, h.bytes, bucket, messages, size)
	}
	return err
}
