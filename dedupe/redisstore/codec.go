package redisstore

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// The layout of a record; record.lua writes it and says what is where.
const (
	recordVersion = 2
	headSize      = 4 + 4 + 5*8 + 32
)

// decode reads a record as the scripts store it.
func decode(b string) (dedupe.Record, error) {
	if len(b) < headSize+4 || b[0] != recordVersion {
		return dedupe.Record{}, fmt.Errorf("%w: a record of %d bytes with an unknown layout", dedupe.ErrCorrupt, len(b))
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64([]byte(b[at : at+8]))) }
	r := dedupe.Record{
		State:      dedupe.State(b[1]),
		Effect:     tool.Effect(b[2]),
		Attempts:   int(binary.BigEndian.Uint32([]byte(b[4:8]))),
		Epoch:      number(8),
		StartedAt:  instant(number(16)),
		FinishedAt: instant(number(24)),
		LeaseUntil: instant(number(32)),
	}
	copy(r.Fingerprint[:], b[headSize-32:headSize])
	rest := b[headSize:]
	for _, s := range [...]*string{&r.Owner, &r.Tool} {
		if len(rest) < 2 {
			return dedupe.Record{}, fmt.Errorf("%w: a record is cut short", dedupe.ErrCorrupt)
		}
		size := 2 + int(binary.BigEndian.Uint16([]byte(rest[:2])))
		if len(rest) < size {
			return dedupe.Record{}, fmt.Errorf("%w: a record is cut short", dedupe.ErrCorrupt)
		}
		// A copy, so that a short name does not hold a long result in memory.
		*s, rest = strings.Clone(rest[2:size]), rest[size:]
	}
	if rest != "" {
		r.Result = []byte(rest)
	}
	return r, nil
}

// instant converts the milliseconds of a record; 0 is the zero time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// decodeAdmission reads the reply of admit.lua.
func decodeAdmission(req dedupe.Request, reply any) (dedupe.Admission, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) < 2 {
		return dedupe.Admission{}, unexpected(reply)
	}
	verdict, ok := fields[0].(int64)
	if !ok {
		return dedupe.Admission{}, unexpected(reply)
	}
	if dedupe.Verdict(verdict) == dedupe.Won {
		return decodeWon(req, fields)
	}
	stored, ok := fields[1].(string)
	if !ok {
		return dedupe.Admission{}, unexpected(reply)
	}
	record, err := decode(stored)
	return dedupe.Admission{Verdict: dedupe.Verdict(verdict), Record: record}, err
}

// decodeWon makes the record of a claim from the request and the little that
// only the server knew.
func decodeWon(req dedupe.Request, fields []any) (dedupe.Admission, error) {
	if len(fields) != 4 {
		return dedupe.Admission{}, unexpected(fields)
	}
	var n [3]int64
	for i := range n {
		var ok bool
		if n[i], ok = fields[i+1].(int64); !ok {
			return dedupe.Admission{}, unexpected(fields)
		}
	}
	return dedupe.Admission{Verdict: dedupe.Won, Record: dedupe.Record{
		State: dedupe.Claimed, Epoch: n[0], Owner: req.Owner, Tool: req.Tool, Effect: req.Effect,
		Fingerprint: req.Fingerprint, StartedAt: instant(n[1]), LeaseUntil: instant(n[2]),
	}}, nil
}

// decodeLookup reads the reply of lookup.lua.
func decodeLookup(reply any) (dedupe.Record, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) == 0 {
		return dedupe.Record{}, unexpected(reply)
	}
	now, ok := fields[0].(int64)
	if !ok {
		return dedupe.Record{}, unexpected(reply)
	}
	if len(fields) == 1 || fields[1] == nil {
		return dedupe.Record{}, nil
	}
	stored, ok := fields[1].(string)
	if !ok {
		return dedupe.Record{}, unexpected(reply)
	}
	record, err := decode(stored)
	return record.Observed(instant(now)), err
}

func unexpected(reply any) error {
	return fmt.Errorf("redis answered with an unexpected %T", reply)
}

// An output is stored as one byte, 1 when it is whole, and its data.
func encodeOutput(o *dedupe.Output) []byte {
	b := make([]byte, 1, 1+len(o.Data))
	if o.Complete {
		b[0] = 1
	}
	return append(b, o.Data...)
}

func decodeOutput(ref, b string, left time.Duration) (dedupe.Output, error) {
	if b == "" {
		return dedupe.Output{}, fmt.Errorf("%w: an output without its head", dedupe.ErrCorrupt)
	}
	return dedupe.Output{Ref: ref, Data: []byte(b[1:]), Complete: b[0] == 1, TTL: left}, nil
}
