package redisstore

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// rows are those of one step on a server, as they are believed to be: a step is decided
// here, and done there by step.lua if all that it has read is true. It says what is true
// otherwise, and the step is decided again.
type rows struct {
	lane *lane
	// now is at the earliest the time at which it is done.
	now time.Time
	// said is what the server has said, when it was asked last, of the rows that were read then. If
	// the step was done then, and has changed nothing, told is what was told of the keys that it
	// asked for, and did the plan of it.
	said   []row
	saidAt time.Time
	told   []string
	did    text

	read   []row
	guess  bool  // some of it the server has not said
	failed error // by what may not be true
	draft
	heard func(at time.Time, told []string) // called when it is done
	after *command                          // what is to be done then, by its key and its step
	plan  text
}

// draft is what a step does to rows, until it is decided again.
type draft struct {
	prefix  string // of keys
	others  []text // keys that are not read
	writes  []write
	gets    int  // keys that are asked for
	scratch text // holds keys and texts
}

// row is a text under a key; empty where there is none.
type row struct {
	key, text string
	record    *dedupe.Stored // that the text stands for, where it was read already
}

// write is something that step.lua does.
type write struct {
	what   byte
	key    int // its place among those that were read, or before 0 among the others
	amount int64
	text   text           // what it takes of the texts
	record *dedupe.Record // that it writes
}

// begin begins a decision: by what the server has said, at the time at which that was, or
// else by what the lane knows, now.
func (r *rows) begin(l *lane) {
	r.lane, r.now = l, r.saidAt
	r.said, r.read = r.read, r.said[:0]
	if r.now.IsZero() {
		r.now, r.said = l.clock.now(), r.said[:0]
	}
	r.now = r.now.In(ofStep)
	r.draft = draft{prefix: l.options.KeyPrefix, others: r.others[:0], writes: r.writes[:0], scratch: r.scratch[:0]}
	r.heard, r.after, r.guess, r.failed = nil, nil, false, nil
}

// Now implements dedupe.Rows. What is counted from it has its location.
func (r *rows) Now() time.Time { return r.now }

// at is the place of a row among those that were read; it is read now if it was not.
func (r *rows) at(key []byte) int { return r.believe(key, "") }

// believe is at, where the step itself knows what the row was, should nobody else.
func (r *rows) believe(key []byte, body string) int {
	for i := range r.read {
		if r.read[i].key == string(key) {
			return i
		}
	}
	found, known := r.lane.known(key)
	at := slices.IndexFunc(r.said, func(said row) bool { return said.key == string(key) })
	switch {
	case at >= 0 && (!known || found.text == r.said[at].text):
		found = r.said[at]
	case known: // another step may have written it since
		r.guess = true
	default:
		r.guess, found = true, row{key: string(key), text: body}
	}
	r.read = append(r.read, found)
	return len(r.read) - 1
}

// write does something to the row at a place; see step.lua.
func (r *draft) write(what byte, at int, amount int64, text text) {
	r.writes = append(r.writes, write{what: what, key: at, amount: amount, text: text})
	if what == 'g' {
		r.gets++
	}
}

// other is the place of a key that is not read.
func (r *draft) other(key text) int {
	for i := range r.others {
		if string(r.others[i]) == string(key) {
			return -1 - i
		}
	}
	r.others = append(r.others, key)
	return -len(r.others)
}

// kept returns a text that stays as it is until the step is decided again.
func (r *draft) kept(body string) text {
	from := len(r.scratch)
	r.scratch = append(r.scratch, body...)
	return r.scratch[from:len(r.scratch):len(r.scratch)]
}

// key makes a key that does.
func (r *draft) key(kind string, in shard, parts ...string) text {
	from := len(r.scratch)
	r.scratch = appendKey(r.scratch, r.prefix, kind, in, parts...)
	return r.scratch[from:len(r.scratch):len(r.scratch)]
}

// set stores a text at a place, as SetValue does.
func (r *rows) set(at int, body string, keep time.Duration) {
	r.write('S', at, keep.Milliseconds(), r.kept(body))
	r.lane.expect(row{key: r.read[at].key, text: body})
}

func (r *rows) record(key tool.CallID) int {
	return r.at(r.key("", shardOfCall(&key), key.Tenant, key.Conversation, key.Turn, key.ID))
}

// Fail implements dedupe.Rows.
func (r *rows) Fail(err error) { r.failed = cmp.Or(r.failed, err) }

func (r *rows) Call(key tool.CallID) dedupe.Stored {
	read := &r.read[r.record(key)]
	switch {
	case read.text == "":
		return dedupe.Stored{}
	case read.record != nil:
		return *read.record
	}
	stored, err := decodeRecord(read.text)
	if errors.Is(err, dedupe.ErrLayout) {
		err = fmt.Errorf("record %s: %w", read.key, err)
	}
	if err != nil {
		r.Fail(named(read.key, err))
		return dedupe.Stored{}
	}
	read.record = &stored
	return stored
}

func (r *rows) SetCall(key tool.CallID, record *dedupe.Record, retention time.Duration, terms []dedupe.Term) {
	at := r.record(key)
	if retention == 0 { // from Redis 7.2 on a WAIT covers only what its own connection has written
		r.write('S', at, 0, r.kept(r.read[at].text))
		return
	}
	waited, stored := marked(r.read[at].text), dedupe.Stored{Record: *record, Retention: retention}
	stored.Mark = waited && record.State == dedupe.Claimed
	sinceWritten(&stored.Record, r.now)
	from := len(r.scratch)
	r.scratch = stored.AppendSealed(r.scratch)
	r.writes = append(r.writes, write{what: 'T', key: at, amount: retention.Milliseconds(), text: r.scratch[from:], record: record})
	r.lane.forget(r.read[at].key)
	if waited && !stored.Mark {
		r.write('P', at, 0, r.kept(settledChannel(r.prefix)))
	}
	if len(terms) > 0 {
		r.index(key, terms, record.StartedAt, at, dedupe.IndexKeep(retention))
	}
}

func (r *rows) Awaited(key tool.CallID) {
	if at := r.record(key); !marked(r.read[at].text) {
		r.write('w', at, 0, nil)
		r.lane.forget(r.read[at].key)
	}
}

// kinds are how the keys of values begin.
var kinds = [...]string{dedupe.TallyValue: "budget/", dedupe.EffectValue: "effect/", dedupe.ReceiptValue: "receipt/", dedupe.LogValue: "log/"}

// value makes the key of a value.
func (r *draft) value(name dedupe.ValueKey) text {
	part := name.Name
	if name.Kind == dedupe.EffectValue { // which is no text
		part = base64.RawURLEncoding.EncodeToString([]byte(part))
	}
	if name.Conversation == "" {
		return r.key(kinds[name.Kind], nowhere, name.Tenant, part)
	}
	return r.key(kinds[name.Kind], shardOf(name.Tenant, name.Conversation), name.Tenant, name.Conversation, part)
}

func (r *rows) Value(name dedupe.ValueKey) string { return r.read[r.at(r.value(name))].text }

func (r *rows) SetValue(name dedupe.ValueKey, body string, keep time.Duration) {
	r.set(r.at(r.value(name)), body, keep)
}

func (r *rows) Append(key tool.CallID, a dedupe.Append, keep time.Duration) {
	r.write('L', r.other(r.value(dedupe.LogKey(key, a.Log))), keep.Milliseconds(), a.Framed())
}

func (r *rows) Logs(key tool.CallID, names []string, into *dedupe.Logs) {
	for _, name := range names {
		r.write('g', r.other(r.value(dedupe.LogKey(key, name))), 0, nil)
	}
	if len(names) > 0 {
		r.heard = func(_ time.Time, told []string) {
			*into = make(dedupe.Logs, len(told))
			for i, log := range told {
				(*into)[i], _ = dedupe.DecodeLog([]byte(log)) // one that cannot be read stands in nobody's way
			}
		}
	}
}

// Keep implements dedupe.Rows. On a Cluster the slot of an output is another than that of
// its call: it is kept by a step of its own.
func (r *rows) Keep(tenant string, output *dedupe.Output) {
	key, body := r.key("output/", nowhere, tenant, output.Ref), encodeOutput(output, r.now)
	keep := func(r *rows) { r.write('S', r.other(key), output.TTL.Milliseconds(), body) }
	if !r.lane.options.Cluster {
		keep(r)
		return
	}
	key = slices.Clone(key)
	r.after = &command{key: string(key), step: own(len(body), keep)}
}

func (r *rows) compose() {
	r.plan = binary.BigEndian.AppendUint64(r.plan[:0], uint64(dedupe.Millis(r.now)))
	r.plan = binary.BigEndian.AppendUint16(r.plan, uint16(len(r.read)))
	for _, w := range r.writes {
		number := w.key + 1
		if w.key < 0 {
			number = len(r.read) - w.key
		}
		r.plan = binary.BigEndian.AppendUint16(append(r.plan, w.what), uint16(number))
		from := len(r.plan)
		r.plan = strconv.AppendInt(append(r.plan, 0), w.amount, 10)
		r.plan[from] = byte(len(r.plan) - from - 1)
	}
}

// planHead is how much of a plan says of which time it is, and of how many rows.
const planHead = 8 + 2

// words appends the words of the command that does the step. What they point to is not
// changed before it is decided again.
func (r *rows) words(words []any) []any {
	words = append(words, len(r.read)+len(r.others))
	for i := range r.read {
		words = append(words, &r.read[i].key)
	}
	for i := range r.others {
		words = append(words, &r.others[i])
	}
	words = append(words, &r.plan)
	for i := range r.read {
		words = append(words, &r.read[i].text)
	}
	for i := range r.writes {
		if r.writes[i].what < 'a' { // it takes a text
			words = append(words, &r.writes[i].text)
		}
	}
	return words
}

// changes reports that it changes more than a mark, which is a hint.
func (r *draft) changes() bool {
	return slices.ContainsFunc(r.writes, func(w write) bool { return w.what != 'g' && w.what != 'M' && w.what != 'Q' && w.what != 'w' })
}

// sure reports that what was decided is the answer: it is what the server has said at one
// instant, and there is nothing to do, or only what was done at that instant and changes
// nothing.
func (r *rows) sure() bool {
	return !r.guess && (len(r.writes) == 0 || !r.changes() && bytes.Equal(r.plan[planHead:], r.did))
}

func (r *rows) forget() {
	for _, read := range r.read {
		r.lane.forget(read.key)
	}
}

// end is told when the step was done: what has counted from then is known now. A record is
// told as it was written; one that is settled is not asked for soon.
func (r *rows) end(at time.Time, told []string) {
	for i := range r.writes {
		w := &r.writes[i]
		if w.what != 'T' {
			continue
		}
		known := row{key: r.read[w.key].key}
		if w.record != nil {
			sinceWritten(w.record, r.now)
			whenWritten(w.record, at)
			known.record = &dedupe.Stored{Record: *w.record, Mark: w.text[dedupe.MarkAt] == 1, Retention: time.Duration(w.amount) * time.Millisecond}
		}
		if w.record == nil || w.record.State == dedupe.Claimed {
			known.text = stamp(w.text, at)
		}
		r.lane.expect(known)
	}
	if r.heard != nil {
		r.heard(at, told)
	}
}
