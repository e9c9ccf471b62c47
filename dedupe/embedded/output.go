package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
)

// An output is a bucket of its own: a head and pieces of its data. In one value
// it would share its page with others, and each change beside it would write
// them all again.
const pieceSize = 64 << 10

var outputHeadKey = []byte("head")

// outputHead is the head: when it expires, how long it is, whether it is whole.
type outputHead struct {
	expires  int64 // milliseconds
	size     int64
	complete bool
}

func (h outputHead) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(h.expires))
	b = binary.BigEndian.AppendUint64(b, uint64(h.size))
	if h.complete {
		return append(b, 1)
	}
	return append(b, 0)
}

// outputKey is the name of an output's bucket.
func outputKey(tenant, ref string) []byte { return appendComponents(nil, tenant, ref) }

func readHead(key []byte, b *bbolt.Bucket) (outputHead, error) {
	value, err := verified(slices.Concat(key, outputHeadKey), b.Get(outputHeadKey))
	if err != nil {
		return outputHead{}, err
	}
	return decodeHead(value)
}

func decodeHead(value []byte) (outputHead, error) {
	if len(value) != 17 {
		return outputHead{}, fmt.Errorf("%w: the head of an output", dedupe.ErrCorrupt)
	}
	return outputHead{
		expires:  int64(binary.BigEndian.Uint64(value)),
		size:     int64(binary.BigEndian.Uint64(value[8:])),
		complete: value[16] == 1,
	}, nil
}

// output reads a kept output.
func (t *txn) output(tenant, ref string) (dedupe.Output, error) {
	key := outputKey(tenant, ref)
	b := t.outputs.Bucket(key)
	if b == nil {
		return dedupe.Output{}, dedupe.ErrNoOutput
	}
	head, err := readHead(key, b)
	if err != nil {
		return dedupe.Output{}, err
	}
	left := dedupe.Instant(head.expires).Sub(t.now)
	if left <= 0 {
		return dedupe.Output{}, dedupe.ErrNoOutput
	}
	data := make([]byte, 0, head.size)
	for n := uint64(0); int64(len(data)) < head.size; n++ {
		piece, err := verified(slices.Concat(key, bigEndian(n)), b.Get(bigEndian(n)))
		if err != nil {
			return dedupe.Output{}, err
		}
		data = append(data, piece...)
	}
	return dedupe.Output{Ref: ref, Data: data, Complete: head.complete, TTL: left}, nil
}

// Keep implements dedupe.Rows: it stores an output, unless it is there already, and makes
// room for it.
func (t *txn) Keep(tenant string, kept *dedupe.Output) error {
	if size := int64(len(kept.Data)); size > t.bound {
		return fmt.Errorf("%w: an output has %d bytes, and all outputs may have %d", dedupe.ErrFull, size, t.bound)
	}
	if _, err := t.output(tenant, kept.Ref); !errors.Is(err, dedupe.ErrNoOutput) {
		return err
	}
	t.writes++
	key := outputKey(tenant, kept.Ref)
	if err := t.removeOutput(key); err != nil { // one that has expired
		return err
	}
	if err := t.writeOutput(key, kept); err != nil {
		return err
	}
	total, err := t.number(outputBytesKey)
	if err != nil {
		return err
	}
	if err := t.setNumber(outputBytesKey, total+int64(len(kept.Data))); err != nil {
		return err
	}
	value := append(bigEndian(uint64(len(kept.Data))), key...)
	if err := t.queue(t.outputExpiry, t.now.Add(kept.TTL), value); err != nil {
		return err
	}
	return t.makeRoom()
}

func (t *txn) writeOutput(key []byte, kept *dedupe.Output) error {
	b, err := t.outputs.CreateBucket(key)
	if err != nil {
		return err
	}
	head := outputHead{dedupe.Millis(t.now.Add(kept.TTL)), int64(len(kept.Data)), kept.Complete}
	if err := b.Put(outputHeadKey, sealed(slices.Concat(key, outputHeadKey), head.encode())); err != nil {
		return err
	}
	b.FillPercent = fullPages
	for n, data := uint64(0), kept.Data; len(data) > 0; n++ {
		piece := data[:min(pieceSize, len(data))]
		data = data[len(piece):]
		if err := b.Put(bigEndian(n), sealed(slices.Concat(key, bigEndian(n)), piece)); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom drops the outputs that expire first until all are within the bound.
func (t *txn) makeRoom() error {
	for {
		total, err := t.number(outputBytesKey)
		if err != nil || total <= t.bound {
			return err
		}
		place, value := t.outputExpiry.Cursor().First()
		if place == nil {
			return t.setNumber(outputBytesKey, 0)
		}
		if err := t.dropOutput(place, value); err != nil {
			return err
		}
	}
}

// dropOutput removes a place from the queue, and the output that has it.
func (t *txn) dropOutput(place, value []byte) error {
	t.writes++
	if len(value) < 8 {
		return fmt.Errorf("%w: an output that is to expire", dedupe.ErrCorrupt)
	}
	place, value = bytes.Clone(place), bytes.Clone(value)
	size, key := int64(binary.BigEndian.Uint64(value)), value[8:]
	if err := t.outputExpiry.Delete(place); err != nil {
		return err
	}
	total, err := t.number(outputBytesKey)
	if err != nil {
		return err
	}
	if err := t.setNumber(outputBytesKey, max(0, total-size)); err != nil {
		return err
	}
	b := t.outputs.Bucket(key)
	if b == nil {
		return nil
	}
	head, err := readHead(key, b)
	if err != nil {
		return err
	}
	if !bytes.Equal(bigEndian(uint64(head.expires)), place[:8]) {
		return nil // the same ref was kept anew, and has a place of its own
	}
	return t.removeOutput(key)
}

// removeOutput deletes an output's bucket if it is there.
func (t *txn) removeOutput(key []byte) error {
	if err := t.outputs.DeleteBucket(key); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
		return err
	}
	return nil
}
