package redisstore

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// rows are those of one step on a server, as they are believed to be: a step is decided
// here, and done there by step.lua if all that it has read is true. It says what is true
// otherwise, and the step is decided again.
type rows struct {
	lane *lane
	// own is the call of the step, ownName the key of its record.
	own     dedupe.Key
	ownName string
	// said is what the server has said of rows when it was asked last, saidLogs of logs.
	said     []row
	saidLogs []log
	saidAt   time.Time
	// now is at the earliest the time at which it is done.
	now time.Time

	read   []row
	others []string // keys that are only written
	writes []write
	logs   []string // what is read when it is done
	into   *dedupe.Logs
	done   []func(at time.Time) // called when it is done, with the time at which it was
	beside []any                // a command of its own, once it is done

	// Room for what most steps need.
	readRoom  [3]row
	writeRoom [5]write
	names     []named
}

// named is the key of a sheet.
type named struct {
	sheet dedupe.Sheet
	key   string
}

// row is a text under a key; empty where there is none.
type row struct {
	key, text string
	record    *dedupe.Stored // that the text stands for, where it was read already
}

// write is something that step.lua does.
type write struct {
	what   byte
	other  bool // the key is one of those that are only written
	key    int  // its place
	amount int64
	text   any // nil, or what it takes of the texts
}

// log is a log as it was read.
type log struct{ key, text string }

// Now implements dedupe.Rows. What is counted from it has its location.
func (r *rows) Now() time.Time { return r.now }

// get returns what stands under a key, as far as is known.
func (r *rows) get(key string) string {
	return r.read[r.at(key)].text
}

// at is the place of a row among those that were read; it is read now if it was not.
func (r *rows) at(key string) int { return r.believe(key, "") }

// believe is at, where the step itself knows what the row was, should nobody else.
func (r *rows) believe(key, text string) int {
	for i := range r.read {
		if r.read[i].key == key {
			return i
		}
	}
	found, known := r.lane.known(key)
	for i := 0; !known && i < len(r.said); i++ {
		if r.said[i].key == key {
			found, known = r.said[i], true
		}
	}
	if found.key = key; !known {
		found.text = text
	}
	r.read = append(r.read, found)
	return len(r.read) - 1
}

// write writes to a key that was read.
func (r *rows) write(what byte, key string, amount int64, text any) {
	r.writes = append(r.writes, write{what: what, key: r.at(key), amount: amount, text: text})
}

// writeOther writes to a key that is not read.
func (r *rows) writeOther(what byte, key string, amount int64, text any) {
	at := slices.Index(r.others, key)
	if at < 0 {
		at, r.others = len(r.others), append(r.others, key)
	}
	r.writes = append(r.writes, write{what: what, other: true, key: at, amount: amount, text: text})
}

// set stores a text under a key that was read; for as long as it would have stood there
// anyway when keep is 0.
func (r *rows) set(key, text string, keep time.Duration) {
	switch {
	case text == "":
		r.write('d', key, 0, nil)
	case keep == 0:
		r.write('k', key, 0, text)
	default:
		r.write('s', key, keep.Milliseconds(), text)
	}
	r.lane.expect(row{key: key, text: text})
}

// recordName is the key of a record.
func (r *rows) recordName(key dedupe.Key) string {
	if key == r.own {
		return r.ownName
	}
	return recordKey(r.lane.options.KeyPrefix, key)
}

func (r *rows) Call(key dedupe.Key) (dedupe.Stored, error) {
	read := &r.read[r.at(r.recordName(key))]
	switch {
	case read.text == "":
		return dedupe.Stored{}, nil
	case read.record != nil:
		return *read.record, nil
	}
	stored, err := decodeRecord(read.text)
	if err != nil {
		return dedupe.Stored{}, called(read.key, err)
	}
	read.record = &stored
	return stored, nil
}

func (r *rows) SetCall(key dedupe.Key, record *dedupe.Record, retention time.Duration) error {
	name := r.recordName(key)
	before := r.read[r.at(name)]
	waited, stored := marked(before.text), dedupe.Stored{Record: *record, Retention: retention}
	stored.Mark = waited && record.State == dedupe.Claimed
	for _, instant := range instants(&stored.Record) {
		*instant = sinceWritten(*instant, r.now)
	}
	body := stored.AppendSealed(make([]byte, 0, stored.SealedBytes()))
	r.write('t', name, retention.Milliseconds(), body)
	r.lane.forget(name)
	r.done = append(r.done, func(at time.Time) {
		for _, instant := range instants(record) {
			*instant = whenWritten(sinceWritten(*instant, r.now), at)
		}
		if record.State == dedupe.Claimed { // what is settled is not asked for often
			stored.Record = *record
			r.lane.expect(row{name, stamp(body, at), &stored})
		}
	})
	if waited && !stored.Mark {
		r.write('p', name, 0, settledChannel(r.lane.options.KeyPrefix))
	}
	return nil
}

// Confirm implements dedupe.Rows. From Redis 7.2 on a WAIT covers only what its own
// connection has written.
func (r *rows) Confirm(key dedupe.Key) {
	name := r.recordName(key)
	r.write('k', name, 0, r.get(name))
}

func (r *rows) Awaited(key dedupe.Key) {
	if name := r.recordName(key); !marked(r.get(name)) {
		r.write('w', name, 0, nil)
		r.lane.forget(name)
	}
}

// sheetName is the key of a sheet.
func (r *rows) sheetName(name dedupe.Sheet) string {
	for i := range r.names {
		if r.names[i].sheet == name {
			return r.names[i].key
		}
	}
	of, prefix := dedupe.Key{Tenant: name.Tenant, Conversation: name.Conversation}, r.lane.options.KeyPrefix
	found := named{sheet: name}
	if name.Kind == dedupe.TallySheet {
		found.key = sheetKey(prefix, "budget/", of, name.Name)
	} else {
		found.key = effectKey(prefix, of, &dedupe.EffectKey{Print: [32]byte([]byte(name.Name)), WholeTenant: name.Conversation == ""})
	}
	r.names = append(r.names, found)
	return found.key
}

func (r *rows) Sheet(name dedupe.Sheet) (string, error) { return r.get(r.sheetName(name)), nil }

func (r *rows) SetSheet(name dedupe.Sheet, body string, keep time.Duration) error {
	r.set(r.sheetName(name), body, keep)
	return nil
}

func (r *rows) Append(key dedupe.Key, a dedupe.Append, keep time.Duration) error {
	name := sheetKey(r.lane.options.KeyPrefix, "log/", key, a.Log)
	r.writeOther('l', name, keep.Milliseconds(), a.Framed())
	return nil
}

func (r *rows) Logs(key dedupe.Key, names []string, into *dedupe.Logs) error {
	r.into = into
	for _, name := range names {
		r.logs = append(r.logs, sheetKey(r.lane.options.KeyPrefix, "log/", key, name))
	}
	return nil
}

// Keep implements dedupe.Rows. On a Cluster the slot of an output is another than that of
// its call: it is kept by a command that is sent after it.
func (r *rows) Keep(tenant string, output *dedupe.Output) error {
	name := outputKey(r.lane.options.KeyPrefix, tenant, output.Ref)
	text := encodeOutput(output, r.now)
	if r.lane.options.Cluster {
		r.beside = []any{"set", name, text, "px", output.TTL.Milliseconds()}
		return nil
	}
	r.writeOther('s', name, output.TTL.Milliseconds(), text)
	return nil
}

// words are the command that does the step. What is pointed to is not changed before it is
// decided again.
func (r *rows) words(script *script) []any {
	words := make([]any, 0, 4+2*len(r.read)+len(r.others)+len(r.writes))
	words = append(words, "evalsha", &script.hash, len(r.read)+len(r.others))
	for i := range r.read {
		words = append(words, &r.read[i].key)
	}
	for i := range r.others {
		words = append(words, &r.others[i])
	}
	words = append(words, r.plan())
	for i := range r.read {
		words = append(words, &r.read[i].text)
	}
	for i := range r.writes {
		if text := r.writes[i].text; text != nil {
			words = append(words, text)
		}
	}
	return words
}

// plan is what step.lua is to do.
func (r *rows) plan() []byte {
	plan := make([]byte, 0, 10+11*len(r.writes))
	plan = binary.BigEndian.AppendUint64(plan, uint64(dedupe.Millis(r.now)))
	plan = binary.BigEndian.AppendUint16(plan, uint16(len(r.read)))
	for _, w := range r.writes {
		number := w.key + 1
		if w.other {
			number += len(r.read)
		}
		plan = binary.BigEndian.AppendUint16(append(plan, w.what), uint16(number))
		plan = binary.BigEndian.AppendUint64(plan, uint64(w.amount))
	}
	return plan
}

// changes reports that the step changes more than a mark, which is a hint.
func (r *rows) changes() bool {
	return slices.ContainsFunc(r.writes, func(w write) bool { return w.what != 'w' })
}

// sure reports that what was read is what the server has said at one instant: what was
// decided by it is the answer, unless it changes something.
func (r *rows) sure() bool {
	for _, read := range r.read {
		if !slices.ContainsFunc(r.said, func(said row) bool { return said.key == read.key && said.text == read.text }) {
			return false
		}
	}
	for _, key := range r.logs {
		if !slices.ContainsFunc(r.saidLogs, func(l log) bool { return l.key == key }) {
			return false
		}
	}
	return !r.changes()
}

// tell fills in the logs that were asked for.
func (r *rows) tell() {
	if len(r.logs) == 0 {
		return
	}
	*r.into = make(dedupe.Logs, len(r.logs))
	for i, key := range r.logs {
		at := slices.IndexFunc(r.saidLogs, func(l log) bool { return l.key == key })
		// One that cannot be read stands in nobody's way.
		(*r.into)[i], _ = dedupe.DecodeLog([]byte(r.saidLogs[at].text))
	}
}
