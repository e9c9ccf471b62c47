//go:build failpoint

package embedded

import (
	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/failpoint"
)

// commit writes a transaction and waits for the disk, in two steps, so that a
// fault can fall between them. The engine would wait once more, before it
// writes the page that makes the transaction count; to a process that is killed
// this is the same, for what it has written stays in the system's cache.
func commit(tx *bbolt.Tx) error {
	db := tx.DB()
	db.NoSync = true
	err := tx.Commit()
	db.NoSync = false
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.CommitUnsynced)
	return db.Sync()
}
