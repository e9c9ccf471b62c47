// Package limit refuses what is too much: too many calls at once (Bulkhead), too
// many per second (Rate), or more than are answered in time (Adaptive).
//
// Neither of them waits. A call that waits here holds memory, its place
// everywhere else and its caller's patience, and when the wait is over its
// deadline often is too; under overload that turns into a queue of calls which
// are all answered too late. So a limit answers at once: yes, or no and when to
// come back. Whoever may wait is up to the caller, who knows the deadline.
//
// A nil limit is one that nobody set: it lets everything through. NewBulkhead and
// NewRate return nil for such a limit.
package limit
