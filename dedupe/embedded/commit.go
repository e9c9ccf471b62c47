//go:build !failpoint

package embedded

import "go.etcd.io/bbolt"

// commit writes a transaction and waits for the disk.
func commit(tx *bbolt.Tx) error { return tx.Commit() }
