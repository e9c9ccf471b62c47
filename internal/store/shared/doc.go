// Package shared is a dedupe.Store that several processes of one user have at once, in one
// file of the embedded store.
//
// That file is of one process. Who gets its lock is the holder: it opens the file, and serves
// it to the others over a unix socket beside it. When the holder ends, however it ends, one of
// the others gets the lock, and they go on with it:
//
//	process ── holder ── embedded store ── file, locked
//	             ▲
//	process ─────┤ unix socket: net/rpc
//	process ─────┘
//
// A request whose connection breaks may or may not have taken effect. To ask again is always
// safe (dedupe.Store), so that it is asked again of the next holder, until its context ends.
// What the store decides when it changes hands it decides as after any restart: a claim of a
// call that must not be repeated becomes Unknown, also where its owner still runs, who then
// settles it late; or, where the owner has not even heard that it has it, gives it back and asks
// for another.
package shared
