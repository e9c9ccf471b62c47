package embedded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// txn is one transaction at one instant of the store's clock: the committed state, and what
// it adds to it, which others see once it is committed.
type txn struct {
	*database

	now     time.Time
	frames  []byte // for the end of the log
	changes []change
	rows    map[digest]row // as they are then; nil where somebody only looks
	tail    int64          // of the log from then on
	largest int64          // row that has to be moved, of those that there were since Open
	failed  error          // why what is done in it comes to nothing
	reads   bool           // it may read the log
}

// errLook is the error of a change where somebody only looks, errDisk that of what the disk has to be
// read for where it may not.
var (
	errLook = errors.New("nothing is to be changed")
	errDisk = errors.New("nothing is to be read")
)

// begin begins a transaction that may change something. There is one at a time, the
// committer's: it has the memory of the one before, if that was not large.
func (d *database) begin() *txn {
	t := &d.scratch
	if t.rows == nil || cap(t.frames) > mostCleaned || cap(t.changes) > groupLength {
		*t = txn{database: d, rows: map[digest]row{}, reads: true}
	}
	clear(t.rows)
	clear(t.changes) // they hold what was read
	t.frames, t.changes = t.frames[:0], t.changes[:0]
	t.now, t.tail, t.largest, t.failed = d.clock.now(), d.file.tail, d.file.largest, nil
	return t
}

// own is a step that is this store's own, of no call.
func own(most dedupe.Demand, bytes int, apply func(t *txn)) *dedupe.Step {
	return &dedupe.Step{Demand: most, Bytes: bytes, Apply: func(of dedupe.Rows) { apply(of.(*txn)) }}
}

func (t *txn) ms() int64 { return dedupe.Millis(t.now) }

func (t *txn) Fail(err error) { t.failed = cmp.Or(t.failed, err) }

// survive does something in it, which a panic fails too.
func (t *txn) survive(do func(dedupe.Rows)) error {
	t.Fail(dedupe.Survive(func() error {
		do(t)
		return nil
	}))
	return t.failed
}

// rollback forgets what was changed after so many changes, and so many bytes of frames.
func (t *txn) rollback(changes, frames int) {
	t.failed = nil
	if len(t.changes) == changes {
		return
	}
	t.changes, t.frames, t.largest = t.changes[:changes], t.frames[:frames], t.file.largest
	clear(t.rows)
	for i := range t.changes {
		t.note(&t.changes[i])
	}
}

func (t *txn) note(c *change) {
	t.rows[c.of] = row{c.place, c.expires}
	if c.kind != outputRow { // which gives way instead
		t.largest = max(t.largest, int64(c.size))
	}
}

func (t *txn) set(kind byte, key []byte, expires time.Time, value ...[]byte) {
	t.Fail(t.add(change{frame: frame{kind: kind, expires: dedupe.Millis(expires)}}, key, value...))
}

// add adds the frame of a change, of which its digest, its place, its key and its value are filled in here.
func (t *txn) add(c change, key []byte, value ...[]byte) error {
	switch {
	case t.failed != nil:
		return t.failed
	case t.rows == nil:
		return errLook
	}
	size := frameBytes + len(key)
	for _, part := range value {
		size += len(part)
	}
	if size > mostFrame {
		return fmt.Errorf("%w: a row of %d bytes", dedupe.ErrInvalid, size)
	}
	at := len(t.frames)
	c.of, c.place = t.index.digest(c.kind, key), place{t.file.end + int64(at), uint32(size)}
	t.frames = appendFrame(slices.Grow(t.frames, size), c.at, c.kind, c.expires, key, value...)
	stored := t.frames[at+frameBytes:]
	c.key, c.value = stored[:len(key)], stored[len(key):]
	t.changes = append(t.changes, c)
	t.note(&c)
	return nil
}

// row is where a row is, whether its time is over or not.
func (t *txn) row(of digest) (r row, known bool) {
	if r, known = t.rows[of]; !known {
		r, known = t.index.rows[of]
	}
	return r, known
}

// get returns the value of a row; nil where there is none, or its time is over. That of a
// message is over when that of its head is, which whoever asks has read.
func (t *txn) get(kind byte, key []byte) (value []byte, expires time.Time) {
	r, known := t.row(t.index.digest(kind, key))
	if t.failed != nil || !known || r.expires <= t.ms() && kind != messageRow {
		return nil, time.Time{}
	}
	f, err := t.read(r.place)
	if err == nil && !bytes.Equal(f.key, key) {
		err = t.fail(corrupt("the row found under a key is another's"))
	}
	t.Fail(err)
	return f.value, dedupe.Instant(r.expires)
}

// read reads a frame of the log, or one of this transaction. What is not as it was written is
// the end of the store: nobody knows what else is not.
func (t *txn) read(p place) (frame, error) {
	if t.rows != nil && p.at >= t.file.end {
		return parseFrame(p.at, bytes.Clone(t.frames[p.at-t.file.end:][:p.size]))
	}
	if !t.reads {
		return frame{}, errDisk
	}
	f, err := t.file.readFrame(p)
	if err != nil {
		return frame{}, t.fail(err)
	}
	return f, nil
}

// clean moves what is live of the oldest frames to the end of the log, so that it begins
// after them. It looks at about so many bytes, and moves no more than there is room for: an
// output gives way then.
func (t *txn) clean(look, most int) error {
	err := t.file.scan(t.tail, t.file.end, func(f frame) (bool, error) {
		if look <= 0 {
			return false, nil
		}
		if moved, err := t.move(f, most-len(t.frames)); !moved {
			return false, err
		}
		look -= int(f.size)
		t.tail = f.at + int64(f.size)
		return true, nil
	})
	if err != nil {
		return t.fail(err)
	}
	return nil
}

// move takes a frame to the end of the log, if it is live; unless there is no room for it.
func (t *txn) move(f frame, most int) (moved bool, err error) {
	c := change{frame: f, of: t.index.digest(f.kind, f.key)}
	if _, newer := t.rows[c.of]; newer || t.index.rows[c.of].place != f.place {
		return true, nil
	}
	if f.kind == messageRow {
		c.expires = t.index.until(f.key)
	}
	if c.expires <= t.ms() || f.kind == outputRow && int(f.size) > most {
		c.gone = true
		if f.kind == indexRow || f.kind == conversationRow { // of which more is gone than the row
			c.key, c.value = bytes.Clone(f.key), bytes.Clone(f.value)
		}
		t.changes = append(t.changes, c)
		return true, nil
	}
	if int(f.size) > most {
		return false, nil
	}
	err = t.add(c, f.key, f.value)
	return err == nil, err
}
