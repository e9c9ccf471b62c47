package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
)

// noLonger begins the engine's error for a file that could not be made longer,
// whose cause it hides. It is found before anything is written.
const noLonger = "file resize error: "

// finishTx commits. Only errors that leave the file as it was before can be
// survived; after any other, nobody knows what the file holds.
func (d *database) finishTx(t *txn) (err error) {
	defer d.dies(&err)
	id := int64(t.tx.ID())
	if err := t.setNumber(clockKey, dedupe.Millis(t.now)); err != nil {
		return errors.Join(err, d.rollback(t.tx))
	}
	d.original.writing.Lock()
	defer d.original.writing.Unlock()
	// What is written to a file that is gone is not told as stored, and a copy that
	// somebody has put there is not spoiled.
	if err := cmp.Or(d.original.inPlace(), d.original.untouched()); err != nil {
		return errors.Join(d.fail(err), d.rollback(t.tx))
	}
	failpoint.Hit(failpoint.CommitUnwritten)
	err = d.commit(t.tx)
	failpoint.Hit(failpoint.CommitSynced)
	switch {
	case err == nil:
		if err := d.original.wrote(id); err != nil {
			return d.fail(err)
		}
		d.index.apply(t.moved)
		d.durable.Store(id)
		return nil
	case d.counts(id):
		return d.fail(err)
	case errors.Is(err, berrors.ErrMaxSizeReached):
		return fmt.Errorf("%w: %s may not grow beyond %d bytes (store.embedded.max_bytes)", dedupe.ErrFull, d.path, d.options.MaxFileBytes)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG),
		strings.HasPrefix(err.Error(), noLonger):
		return fmt.Errorf("%w: there is no room for %s: %w", dedupe.ErrFull, d.path, err)
	default:
		return d.fail(err)
	}
}

// counts reports whether the file holds a transaction whose commit failed. The
// engine syncs once more after it has written the page that makes one count: a
// disk that is full only then leaves the transaction there, to last or not.
func (d *database) counts(id int64) bool {
	tx, err := d.beginRead()
	if err != nil {
		return true // nobody knows
	}
	counts := int64(tx.ID()) >= id
	return d.endRead(tx) != nil || counts
}
