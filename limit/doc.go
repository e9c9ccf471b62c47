// Package limit refuses what is too much: too many calls at once (Bulkhead) or
// too many per second (Rate).
//
// Neither of them waits. A call that waits here holds memory, its place
// everywhere else and its caller's patience, and when the wait is over its
// deadline often is too; under overload that turns into a queue of calls which
// are all answered too late. So a limit answers at once: yes, or no and when to
// come back. Whoever may wait is up to the caller, who knows the deadline.
//
// A nil *Bulkhead and a nil *Rate are limits that nobody set: they let
// everything through. The constructors return nil for such a limit.
package limit
