// Package memory is a dedupe.Store that lives in the process and dies with it. It is for tests
// and for trying things out: after a restart it knows of no call, so that a call which ran
// before can run again. Whoever offers it to a user logs Warning at start.
//
// It is the embedded store over memory in the place of a file.
package memory

import "github.com/sidecall/sidecall/internal/store/embedded"

// Warning says what is wrong with this store, in one sentence for the log.
const Warning = "the memory store forgets everything when the process ends: a call made before a restart can run again after it"

// Options are those of the embedded store. MaxBytes bounds all that is kept; beyond it new calls
// get ErrFull. Default 1 GiB.
type Options = embedded.Options

// Store is a dedupe.Store in memory.
type Store = embedded.Store

// New returns an empty store.
func New(options Options) *Store { return embedded.InMemory(options) }
