package embedded

import (
	"fmt"
	"runtime"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/dedupe"
)

// fail makes the store refuse everything from now on. What the disk or the
// kernel did with data that it failed to write is unknown, and a second try
// that seems to succeed proves nothing about the first. Nobody waits any longer
// for the committer, which may be stuck.
func (d *database) fail(cause error) error {
	var err error = &dedupe.FailedError{File: d.path, Cause: cause}
	if d.failure.CompareAndSwap(nil, &err) {
		d.options.Log.Error("the store has failed: calls with an effect are refused until its file is seen to and the sidecar started anew",
			"path", d.path, "error", cause)
		d.end()
	}
	return err
}

// end sends away whoever waits for the committer.
func (d *database) end() { d.overOnce.Do(func() { close(d.over) }) }

// ended is why nobody has to wait for the committer any more.
func (d *database) ended() error {
	if failure := d.failure.Load(); failure != nil {
		return *failure
	}
	return dedupe.ErrClosed
}

// enginePackage begins the names of the engine's functions.
const enginePackage = "go.etcd.io/bbolt"

// met makes an error of a panic, from within the function that has recovered it.
// A page that cannot be read, or at which the engine gives up, is the end of the
// store: the file is not as the engine has left it, at a place where anything may
// have been. A bug of this package costs the request that has met it.
func (d *database) met(p any) error {
	err := fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p)
	if _, fault := p.(interface{ Addr() uintptr }); fault || inEngine() {
		return d.fail(err)
	}
	return err
}

// inEngine reports whether the engine was at work when the panic began that the
// caller has recovered.
func inEngine() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for more := true; more; {
		var frame runtime.Frame
		if frame, more = frames.Next(); strings.HasPrefix(frame.Function, enginePackage) {
			return true
		}
	}
	return false
}

// damaged is met, to be deferred.
func (d *database) damaged(err *error) {
	if p := recover(); p != nil {
		*err = d.met(p)
	}
}

// dies is damaged where the engine dies with its locks held. Nobody must wait for
// them: see wedged.
func (d *database) dies(err *error) {
	if p := recover(); p != nil {
		*err = d.fail(fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p))
		d.wedged.Store(true)
	}
}

// beginRead begins a look at the last committed state, and endRead ends it. The
// engine would die holding the lock under which everybody begins, did it find the
// file damaged there: so that is looked at before, and the gate keeps the others
// from waiting for that lock if it happens in between all the same.
func (d *database) beginRead() (tx *bbolt.Tx, err error) {
	d.gate.Lock()
	defer d.gate.Unlock()
	defer d.dies(&err)
	if d.wedged.Load() {
		return nil, d.ended()
	}
	if err := d.original.readable(); err != nil {
		return nil, d.fail(err)
	}
	return d.db.Begin(false)
}

func (d *database) endRead(tx *bbolt.Tx) (err error) {
	defer d.dies(&err)
	if d.wedged.Load() {
		return nil
	}
	// Not at the gate: who begins may wait there, with a writer that needs all of
	// the file, for those who look to end.
	return tx.Rollback()
}

// beginWrite begins a transaction that may change something.
func (d *database) beginWrite() (t *txn, err error) {
	defer d.dies(&err)
	tx, err := d.db.Begin(true)
	if err != nil {
		return nil, closedError(err)
	}
	return newTxn(tx, d), nil
}

// rollback forgets a transaction.
func (d *database) rollback(tx *bbolt.Tx) (err error) {
	defer d.dies(&err)
	return tx.Rollback()
}
