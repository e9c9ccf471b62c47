package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// A sheet is a tally or a log of a conversation. Its value is when it expires and
// then what stands on it, up to the end: the numbers of a tally, or a log.
const (
	sheetTally = "t"
	sheetLog   = "l"
)

// sheetKey is the key of a sheet. Those of a conversation are neighbours.
func sheetKey(key dedupe.Key, kind, name string) []byte {
	b := make([]byte, 0, len(key.Tenant)+len(key.Conversation)+len(name)+9)
	return appendComponents(b, key.Tenant, key.Conversation, kind, name)
}

// sheet returns what stands on a sheet as of now; nil when there is none.
func (t *txn) sheet(key []byte) ([]byte, error) {
	b := t.sheets.Get(key)
	if b == nil {
		return nil, nil
	}
	expires, body, err := decodeSheet(key, b)
	if err != nil || !t.now.Before(expires) {
		return nil, err
	}
	return body, nil
}

func decodeSheet(key, b []byte) (expires time.Time, body []byte, err error) {
	value, err := verified(key, b)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("%w: a sheet of a conversation", err)
	}
	if len(value) < 8 {
		return time.Time{}, nil, fmt.Errorf("%w: a sheet of a conversation is cut short", dedupe.ErrCorrupt)
	}
	return dedupe.Instant(int64(binary.BigEndian.Uint64(value))), value[8:], nil
}

// turn stores a sheet. Its place in the queue of those to expire is corrected when
// it is due.
func (t *txn) turn(key, body []byte, retention time.Duration) error {
	t.writes++
	expires := t.now.Add(retention)
	if t.sheets.Get(key) == nil {
		if err := t.queue(t.sheetExpiry, expires, key); err != nil {
			return err
		}
	}
	return t.sheets.Put(key, sealed(key, append(bigEndian(uint64(dedupe.Millis(expires))), body...)))
}

// tally returns a tally as of now, empty when there is none.
func (t *txn) tally(key []byte) (tally dedupe.Tally, found bool, err error) {
	b, err := t.sheet(key)
	if err != nil || b == nil {
		return dedupe.Tally{}, false, err
	}
	if len(b) != 4*8 {
		return dedupe.Tally{}, false, fmt.Errorf("%w: a tally of %d bytes", dedupe.ErrCorrupt, len(b))
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	tally = dedupe.Tally{Calls: number(0), Reported: number(8), Estimated: number(16), StartedAt: dedupe.Instant(number(24))}
	return tally, true, nil
}

func (t *txn) setTally(key []byte, tally dedupe.Tally, retention time.Duration) error {
	b := make([]byte, 0, 4*8)
	for _, n := range [...]int64{tally.Calls, tally.Reported, tally.Estimated, dedupe.Millis(tally.StartedAt)} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return t.turn(key, b, retention)
}

// bill applies the draw of a request; see dedupe.Record.Bill.
func (t *txn) bill(req *dedupe.Request, current, next dedupe.Record, verdict dedupe.Verdict) (after dedupe.Tally, changed bool, exceeded *dedupe.Admission, err error) {
	before, _, err := t.tally(sheetKey(req.Key, sheetTally, req.Draw.Counter))
	if err != nil {
		return dedupe.Tally{}, false, nil, err
	}
	after, exceeded = current.Bill(req, next, verdict, before, t.now)
	return after, after != before, exceeded, nil
}

// move applies what a transition does to tallies. A charge that is given back to
// one that is not there is dropped.
func (t *txn) move(key dedupe.Key, moves []dedupe.Move, retention time.Duration) error {
	for _, m := range moves {
		name := sheetKey(key, sheetTally, m.Counter)
		tally, found, err := t.tally(name)
		if err == nil && (found || m.Calls > 0) {
			err = t.setTally(name, tally.Add(m.Calls, t.now), retention)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spend adds tokens to a tally that is there.
func (t *txn) spend(settlement *dedupe.Settlement) error {
	if settlement.Spend.Counter == "" {
		return nil
	}
	name := sheetKey(settlement.Key, sheetTally, settlement.Spend.Counter)
	tally, found, err := t.tally(name)
	if err != nil || !found {
		return err
	}
	return t.setTally(name, tally.Spend(settlement.Spend.Tokens), settlement.Retention)
}

// append adds entries to logs.
func (t *txn) append(key dedupe.Key, appends []dedupe.Append, retention time.Duration) error {
	for _, a := range appends {
		name := sheetKey(key, sheetLog, a.Log)
		body, err := t.sheet(name)
		if err != nil {
			return err
		}
		if err := t.turn(name, a.AppendTo(body), retention); err != nil {
			return err
		}
	}
	return nil
}

// logs reads logs.
func (t *txn) logs(key dedupe.Key, names []string) (dedupe.Logs, error) {
	if len(names) == 0 {
		return nil, nil
	}
	logs := make(dedupe.Logs, len(names))
	for i, name := range names {
		body, err := t.sheet(sheetKey(key, sheetLog, name))
		if err != nil {
			return nil, err
		}
		if logs[i], err = dedupe.DecodeLog(bytes.Clone(body)); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// sweepSheets removes at most limit sheets whose time is over; one that was given
// more time since it was queued is queued again.
func (t *txn) sweepSheets(limit int) error {
	for range limit {
		place, value := due(t.sheetExpiry, t.now.Add(-sweepSlack))
		if place == nil {
			return nil
		}
		t.writes++
		// What bbolt returns is only valid until the next change.
		place, key := bytes.Clone(place), bytes.Clone(value)
		if err := t.sheetExpiry.Delete(place); err != nil {
			return err
		}
		b := t.sheets.Get(key)
		if b == nil {
			return fmt.Errorf("%w: a sheet of a conversation that is to expire is missing", dedupe.ErrCorrupt)
		}
		expires, _, err := decodeSheet(key, b)
		if err != nil {
			return err
		}
		if t.now.Before(expires) {
			err = t.queue(t.sheetExpiry, expires, key)
		} else {
			err = t.sheets.Delete(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type noteOp struct {
	pending
	note  dedupe.Note
	noted dedupe.Noted
}

func (o *noteOp) weight() int { return appendBytes(o.note.Appends) }

func (o *noteOp) apply(t *txn) error {
	e, err := t.find(encodeKey(o.note.Key))
	if err == nil {
		err = t.loadResult(&e)
	}
	if err != nil {
		return err
	}
	o.noted.Record = e.Observed(t.now)
	if o.noted.Record.Refused() {
		if err := t.append(o.note.Key, o.note.Appends, o.note.Retention); err != nil {
			return err
		}
	}
	if o.note.Counter != "" {
		if o.noted.Tally, _, err = t.tally(sheetKey(o.note.Key, sheetTally, o.note.Counter)); err != nil {
			return err
		}
	}
	o.noted.Logs, err = t.logs(o.note.Key, o.note.Logs)
	return err
}

// appendBytes is roughly how much is written to append entries.
func appendBytes(appends []dedupe.Append) (n int) {
	for _, a := range appends {
		n += min(a.Keep*len(a.Entry), math.MaxUint16) + dedupe.MaxLogBytes
	}
	return n
}
