package embedded

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// index says where the rows of the log are. It is kept in memory alone, about 60 bytes for a
// row, and made anew at each Open, which reads the whole log anyway.
type index struct {
	seeds [2]maphash.Seed
	rows  map[digest]row
	// undecided are the records of calls that are claimed or unknown.
	undecided map[digest]struct{}
	outputs   outputs
	// conversations by the digests of their heads.
	conversations map[digest]talk

	live ledger
}

// place is where a frame is in the log, and how long.
type place struct {
	at   int64
	size uint32
}

// row is where a row is, and when it expires.
type row struct {
	place

	expires int64
}

// talk is a conversation beside its head, with which it expires.
type talk struct {
	name     string
	count    int // of its messages, as the head has it
	messages []place
	bytes    int64 // of the messages
}

// digest stands for a key: 128 bits, seeded per process, so that nobody can make two keys
// meet. Whoever finds a row compares its key.
type digest [2]uint64

func newIndex() *index {
	return &index{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, rows: map[digest]row{},
		undecided: map[digest]struct{}{}, conversations: map[digest]talk{}, live: ledger{due: map[int64]int64{}},
	}
}

func (x *index) digest(kind byte, key []byte) (d digest) {
	for i := range d {
		var h maphash.Hash
		h.SetSeed(x.seeds[i])
		_ = h.WriteByte(kind) // a hash never fails
		_, _ = h.Write(key)
		d[i] = h.Sum64()
	}
	return d
}

// change is what a commit does to the index.
type change struct {
	kind byte
	row

	of      digest // of a message: of the head of its conversation
	open    bool   // the call of a record is undecided
	name    string // of a conversation
	message int    // its number; how many there are, of a head
	gone    bool   // the row has expired, if it is still where it was
}

// changed is what a row changes when it is put somewhere.
func (x *index) changed(kind byte, expires int64, key, value []byte) (c change, err error) {
	c = change{kind: kind, row: row{expires: expires}}
	switch kind {
	case recordRow:
		c.open = undecided(value)
	case conversationRow:
		c.name = string(key)
		c.message, _, err = decodeTalk(value)
	case messageRow:
		kind = conversationRow
		key, c.message, err = decodeMessageKey(key)
	}
	c.of = x.digest(kind, key)
	return c, err
}

// current is where the row of a change is.
func (x *index) current(c *change) row {
	r := x.rows[c.of]
	if c.kind != messageRow {
		return r
	}
	if said := x.conversations[c.of].messages; c.message < len(said) {
		return row{said[c.message], r.expires}
	}
	return row{}
}

// change follows a commit. Changes are made in the order in which they came.
func (x *index) change(c *change) {
	if c.kind == messageRow {
		x.say(c)
		return
	}
	before, known := x.rows[c.of]
	if c.gone && before.place != c.place {
		return
	}
	if known {
		x.live.add(-int64(before.size), before.expires)
	}
	if known && c.kind == outputRow {
		x.outputs.remove(found{c.of, before})
	}
	delete(x.undecided, c.of)
	if c.kind == conversationRow {
		x.converse(c, before.expires)
	}
	if c.gone {
		delete(x.rows, c.of)
		return
	}
	x.rows[c.of] = c.row
	x.live.add(int64(c.size), c.expires)
	if c.open {
		x.undecided[c.of] = struct{}{}
	}
	if c.kind == outputRow {
		x.outputs.add(found{c.of, c.row})
	}
}

// converse changes a conversation with its head, which expired at another time before.
func (x *index) converse(c *change, before int64) {
	v := x.conversations[c.of]
	x.live.add(-v.bytes, before)
	if c.gone {
		delete(x.conversations, c.of)
		return
	}
	kept := min(c.message, len(v.messages))
	for _, m := range v.messages[kept:] { // of one that had its name before
		v.bytes -= int64(m.size)
	}
	x.conversations[c.of] = talk{c.name, c.message, v.messages[:kept], v.bytes}
	x.live.add(v.bytes, c.expires)
}

// say changes a message. Messages come before the head that counts them; those that were
// moved come after it. One that is gone goes with its head.
func (x *index) say(c *change) {
	if c.gone {
		return
	}
	v := x.conversations[c.of]
	v.messages = append(v.messages, make([]place, max(0, c.message+1-len(v.messages)))...)
	more := int64(c.size) - int64(v.messages[c.message].size)
	v.messages[c.message] = c.place
	v.bytes += more
	x.live.add(more, x.rows[c.of].expires)
	x.conversations[c.of] = v
}

// loaded reports what is missing when all of the log has been read. What has expired leaves
// the log a piece at a time: of that there may be a head, or messages, alone.
func (x *index) loaded(now int64) error {
	for of, v := range x.conversations {
		if head := x.rows[of]; head.expires <= now {
			x.change(&change{kind: conversationRow, row: head, of: of, gone: true})
			continue
		}
		if v.count != len(v.messages) || slices.Contains(v.messages, place{}) {
			return corrupt("a message of a conversation is missing")
		}
	}
	return nil
}

// outputs are those that are kept, in the order in which they expire.
type outputs struct {
	first []found
	bytes int64
}

// found is a row of the index.
type found struct {
	of digest
	row
}

// at is where an output is, or would be.
func (o *outputs) at(f found) int {
	i, _ := slices.BinarySearchFunc(o.first, f, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), byPlace(a, b))
	})
	return i
}

func byPlace(a, b found) int { return cmp.Compare(a.place.at, b.place.at) }

func (o *outputs) add(f found) {
	o.first = slices.Insert(o.first, o.at(f), f)
	o.bytes += int64(f.size)
}

func (o *outputs) remove(f found) {
	if i := o.at(f); i == 0 {
		o.first = o.first[1:]
	} else {
		o.first = slices.Delete(o.first, i, i+1)
	}
	o.bytes -= int64(f.size)
}

// until says what time it is. Outputs whose time is over are dropped, and those that expire
// first until all are within a bound. The log may still have the latter: they may come back
// at the next Open.
func (x *index) until(now, bound int64) {
	x.live.until(now)
	for o := &x.outputs; len(o.first) > 0 && (o.bytes > bound || o.first[0].expires <= now); {
		x.change(&change{kind: outputRow, row: o.first[0].row, of: o.first[0].of, gone: true})
	}
}

// ledger counts the bytes of what is live: what was put, and not replaced, and whose time is
// not over. That is by minutes.
type ledger struct {
	bytes int64
	due   map[int64]int64 // minute → bytes that expire in it
	now   int64           // the minute; those before it are over
}

const aMinute = 60_000 // milliseconds

func (l *ledger) add(n, expires int64) {
	if m := expires / aMinute; m >= l.now {
		l.due[m] += n
		l.bytes += n
	}
}

// until says what time it is.
func (l *ledger) until(now int64) {
	if now/aMinute == l.now {
		return
	}
	l.now = now / aMinute
	for m, n := range l.due {
		if m < l.now {
			l.bytes -= n
			delete(l.due, m)
		}
	}
}
