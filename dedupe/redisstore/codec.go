package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// decode reads a record as the scripts store it.
func decode(b string) (dedupe.Record, error) {
	stored, err := dedupe.DecodeSealed([]byte(b))
	return stored.Record, err
}

// decodeAdmission reads the reply of admit.lua.
func decodeAdmission(prefix string, req dedupe.Request, reply any) (dedupe.Admission, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) < 2 {
		return dedupe.Admission{}, unexpected(reply)
	}
	verdict, ok := fields[0].(int64)
	if !ok {
		return dedupe.Admission{}, unexpected(reply)
	}
	switch v := dedupe.Verdict(verdict); v {
	case dedupe.Won:
		return decodeWon(req, fields)
	case dedupe.Exceeded:
		ceiling, ok := fields[1].(int64)
		if !ok || ceiling < int64(dedupe.CallsCeiling) || ceiling > int64(dedupe.TokensShrank) || len(fields) < 3 {
			return dedupe.Admission{}, unexpected(reply)
		}
		tally, err := decodeTally(fields[2])
		return dedupe.Admission{Verdict: v, Tally: tally, Ceiling: dedupe.Ceiling(ceiling)}, err
	case dedupe.DuplicateEffect, dedupe.EffectInFlight, dedupe.EffectUnknown:
		return decodeEarlier(prefix, v, fields)
	case dedupe.Replay, dedupe.InFlight, dedupe.OutcomeUnknown, dedupe.Mismatch:
		stored, ok := fields[1].(string)
		if !ok {
			return dedupe.Admission{}, unexpected(reply)
		}
		admission := dedupe.Admission{Verdict: v}
		var err error
		if len(fields) > 2 {
			if admission.Tally, err = decodeTally(fields[2]); err != nil {
				return dedupe.Admission{}, err
			}
		}
		admission.Record, err = decode(stored)
		return admission, err
	}
	return dedupe.Admission{}, unexpected(reply)
}

// decodeEarlier reads the answer about a call whose effect stands in the way.
func decodeEarlier(prefix string, v dedupe.Verdict, fields []any) (dedupe.Admission, error) {
	admission := dedupe.Admission{Verdict: v}
	if len(fields) < 3 {
		return dedupe.Admission{}, unexpected(fields)
	}
	stored, isRecord := fields[1].(string)
	name, isName := fields[2].(string)
	if !isRecord || !isName {
		return dedupe.Admission{}, unexpected(fields)
	}
	var err error
	if len(fields) > 3 {
		if admission.Tally, err = decodeTally(fields[3]); err != nil {
			return dedupe.Admission{}, err
		}
	}
	if admission.Earlier, err = parseRecordKey(prefix, prefix+name); err != nil {
		return dedupe.Admission{}, err
	}
	admission.Record, err = decode(stored)
	return admission, err
}

// decodeTally reads the line of a tally; an empty one for none.
func decodeTally(reply any) (dedupe.Tally, error) {
	line, ok := reply.(string)
	if !ok {
		return dedupe.Tally{}, unexpected(reply)
	}
	if line == "" {
		return dedupe.Tally{}, nil
	}
	var n [4]int64
	for i := range n {
		part, rest, more := strings.Cut(line, " ")
		number, err := strconv.ParseInt(part, 10, 64)
		if err != nil || more != (i+1 < len(n)) {
			return dedupe.Tally{}, fmt.Errorf("redis answered with a tally of %q", reply)
		}
		n[i], line = number, rest
	}
	return dedupe.Tally{Calls: n[0], Reported: n[1], Estimated: n[2], StartedAt: dedupe.Instant(n[3])}, nil
}

// decodeLogs reads as many logs as were asked for.
func decodeLogs(reply []any, names int) (dedupe.Logs, error) {
	if len(reply) != names {
		return nil, fmt.Errorf("redis answered with %d logs of %d", len(reply), names)
	}
	if names == 0 {
		return nil, nil
	}
	logs := make(dedupe.Logs, names)
	for i, log := range reply {
		entries, ok := log.(string)
		if !ok {
			return nil, unexpected(log)
		}
		// One that cannot be read stands in nobody's way, as in log.lua.
		logs[i], _ = dedupe.DecodeLog([]byte(entries))
	}
	return logs, nil
}

// decodeNoted reads the reply of note.lua.
func decodeNoted(n dedupe.Note, reply any) (noted dedupe.Noted, err error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) < 3 {
		return dedupe.Noted{}, unexpected(reply)
	}
	found := fields[:1]
	if stored, ok := fields[1].(string); !ok || stored != "" {
		found = fields[:2]
	}
	seen, err := decodeLookup(found)
	if err != nil {
		return dedupe.Noted{}, err
	}
	noted.Record = seen.Record
	if noted.Tally, err = decodeTally(fields[2]); err != nil {
		return dedupe.Noted{}, err
	}
	noted.Logs, err = decodeLogs(fields[3:], len(n.Logs))
	return noted, err
}

// decodeSettled reads the reply of settle.lua.
func decodeSettled(reply any) (dedupe.SettleVerdict, error) {
	switch reply {
	case int64(dedupe.Settled):
		return dedupe.Settled, nil
	case int64(dedupe.Superseded):
		return dedupe.Superseded, nil
	}
	return 0, unexpected(reply)
}

// decodeWon makes the record of a claim from the request and the little that
// only the server knew.
func decodeWon(req dedupe.Request, fields []any) (dedupe.Admission, error) {
	if len(fields) < 4 {
		return dedupe.Admission{}, unexpected(fields)
	}
	var n [3]int64
	for i := range n {
		var ok bool
		if n[i], ok = fields[i+1].(int64); !ok {
			return dedupe.Admission{}, unexpected(fields)
		}
	}
	admission := dedupe.Admission{Verdict: dedupe.Won, Record: dedupe.Record{
		State: dedupe.Claimed, Epoch: n[0], Owner: req.Owner, Tool: req.Tool, Effect: req.Effect,
		Fingerprint: req.Fingerprint, StartedAt: dedupe.Instant(n[1]), LeaseUntil: dedupe.Instant(n[2]), Charges: req.Charges,
	}}
	if len(fields) == 4 {
		return admission, nil
	}
	var err error
	if admission.Tally, err = decodeTally(fields[4]); err != nil {
		return dedupe.Admission{}, err
	}
	admission.Logs, err = decodeLogs(fields[5:], len(req.Logs))
	return admission, err
}

// decodeRestored reads the reply of restore.lua.
func decodeRestored(reply any) (record dedupe.Record, restored bool, err error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 2 {
		return dedupe.Record{}, false, unexpected(reply)
	}
	n, isNumber := fields[0].(int64)
	stored, isText := fields[1].(string)
	if !isNumber || !isText {
		return dedupe.Record{}, false, unexpected(reply)
	}
	record, err = decode(stored)
	return record, n == 1, err
}

// decodeLookup reads the reply of lookup.lua.
func decodeLookup(reply any) (dedupe.Seen, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) == 0 {
		return dedupe.Seen{}, unexpected(reply)
	}
	now, ok := fields[0].(int64)
	if !ok {
		return dedupe.Seen{}, unexpected(reply)
	}
	seen := dedupe.Seen{Now: dedupe.Instant(now)}
	if len(fields) == 1 || fields[1] == nil {
		return seen, nil
	}
	stored, ok := fields[1].(string)
	if !ok {
		return dedupe.Seen{}, unexpected(reply)
	}
	record, err := decode(stored)
	seen.Record, seen.Stored = record.Observed(seen.Now), []byte(stored)
	return seen, err
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
