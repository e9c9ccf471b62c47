package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// An output is stored as one byte, 1 when it is whole, when it expires (8, in milliseconds
// since 1970), and its data.
const outputHead = 1 + 8

func encodeOutput(o *dedupe.Output, now time.Time) []byte {
	b := make([]byte, 1, outputHead+len(o.Data))
	if o.Complete {
		b[0] = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(dedupe.Millis(now.Add(o.TTL))))
	return append(b, o.Data...)
}

func decodeOutput(ref, text string, now time.Time) (dedupe.Output, error) {
	if len(text) < outputHead {
		return dedupe.Output{}, fmt.Errorf("%w: an output without its head", dedupe.ErrCorrupt)
	}
	expires := dedupe.Instant(int64(binary.BigEndian.Uint64([]byte(text[1:outputHead]))))
	return dedupe.Output{Ref: ref, Data: []byte(text[outputHead:]), Complete: text[0] == 1, TTL: expires.Sub(now)}, nil
}

// reading is the step of who reads an output.
type reading struct {
	key, ref string
	output   dedupe.Output
}

func (o *reading) Apply(of dedupe.Rows) (err error) {
	text := of.(*rows).get(o.key)
	if text == "" {
		return dedupe.ErrNoOutput
	}
	o.output, err = decodeOutput(o.ref, text, of.Now())
	return err
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	o := &reading{key: outputKey(s.options.KeyPrefix, tenant, ref), ref: ref}
	if err := s.run(ctx, func() *command { return &command{key: o.key, step: o, ofCall: true} }, always); err != nil {
		return dedupe.Output{}, err
	}
	return o.output, nil
}
