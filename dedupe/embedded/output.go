package embedded

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
)

// whole is the text in the head of an output that is complete.
const whole = "whole"

// outputKey is the name of an output.
func outputKey(tenant, ref string) []byte { return appendComponents(nil, tenant, ref) }

// output reads a kept output.
func (t *txn) output(tenant, ref string) (dedupe.Output, error) {
	d, err := t.document(t.outputs, outputKey(tenant, ref))
	if err != nil {
		return dedupe.Output{}, err
	}
	if d.bucket == nil {
		return dedupe.Output{}, dedupe.ErrNoOutput
	}
	data, err := d.read(0)
	if err == nil && int64(len(data)) != d.bytes {
		err = fmt.Errorf("%w: an output of %d bytes has %d", dedupe.ErrCorrupt, d.bytes, len(data))
	}
	if err != nil {
		return dedupe.Output{}, err
	}
	return dedupe.Output{Ref: ref, Data: data, Complete: string(d.text) == whole, TTL: dedupe.Instant(d.expires).Sub(t.now)}, nil
}

// Keep implements dedupe.Rows: it stores an output, unless it is there already, and makes
// room for it.
func (t *txn) Keep(tenant string, kept *dedupe.Output) error {
	size := int64(len(kept.Data))
	if size > t.bound {
		return fmt.Errorf("%w: an output has %d bytes, and all outputs may have %d", dedupe.ErrFull, size, t.bound)
	}
	key := outputKey(tenant, kept.Ref)
	old, err := openDocument(t.outputs, key)
	if err != nil || t.now.Before(dedupe.Instant(old.expires)) {
		return err
	}
	t.writes++
	d, err := t.begin(t.outputs, t.outputExpiry, key, kept.TTL)
	if err != nil {
		return err
	}
	text := ""
	if kept.Complete {
		text = whole
	}
	if err := d.append([][]byte{kept.Data}, []byte(text), t.now.Add(kept.TTL)); err != nil {
		return err
	}
	if err := t.addOutputBytes(size - old.bytes); err != nil {
		return err
	}
	return t.makeRoom()
}

// addOutputBytes notes that outputs have more bytes together, or fewer.
func (t *txn) addOutputBytes(n int64) error {
	total, err := t.number(outputBytesKey)
	if err != nil {
		return err
	}
	return t.setNumber(outputBytesKey, max(0, total+n))
}

// makeRoom drops the outputs that expire first until all are within the bound.
func (t *txn) makeRoom() error {
	for {
		total, err := t.number(outputBytesKey)
		if err != nil || total <= t.bound {
			return err
		}
		outputs := t.expiringOutputs()
		at, place, key := first(outputs.places)
		if place == nil {
			return t.setNumber(outputBytesKey, 0)
		}
		if _, err := t.expire(outputs, place, key, at); err != nil {
			return err
		}
	}
}
