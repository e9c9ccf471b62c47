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

func encodeOutput(o *dedupe.Output, now time.Time) text {
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

// keeping is the step of who keeps an output.
type keeping struct {
	unbound
	key  string
	text text
	ttl  time.Duration
}

func (k *keeping) Apply(of dedupe.Rows) error {
	r := of.(*rows)
	r.write('S', r.other([]byte(k.key)), k.ttl.Milliseconds(), k.text)
	return nil
}

// reading is the step of who reads an output.
type reading struct {
	unbound
	key, ref string
	output   dedupe.Output
}

func (o *reading) Apply(of dedupe.Rows) (err error) {
	r := of.(*rows)
	text := r.read[r.at([]byte(o.key))].text
	if text == "" {
		return dedupe.ErrNoOutput
	}
	o.output, err = decodeOutput(o.ref, text, r.now)
	return err
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	o := &reading{key: string(appendKey(nil, s.options.KeyPrefix, "output/", 0, tenant, ref)), ref: ref}
	if err := s.run(ctx, o.key, o, 0); err != nil {
		return dedupe.Output{}, err
	}
	return o.output, nil
}
