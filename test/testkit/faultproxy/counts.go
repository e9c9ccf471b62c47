package faultproxy

import "sync/atomic"

// Counts is how often each fault came about.
type Counts struct {
	// Connections were carried; Unreachable ones found no target.
	Connections, Unreachable int
	// Refusals is how often the proxy stopped to listen.
	Refusals int
	// Cut connections were closed by Cut or CutWhere.
	Cut int
	// Closed, Reset and Muted connections were ended so by a hook or Swallow.
	Closed, Reset, Muted int
	// Swallowed answers were lost by Swallow.
	Swallowed int
	// LostBytes were read from one side and never reached the other because of
	// a hook or Swallow.
	LostBytes int
	// Frozen chunks had to wait for Thaw, or for the end of their connection.
	Frozen int
	// Delayed chunks were late on purpose.
	Delayed int
	// Torn chunks were written in several pieces.
	Torn int
}

type counters struct {
	connections, unreachable, refusals, cuts atomic.Int64
	closed, resets, muted, swallowed, lost   atomic.Int64
	held, late, torn                         atomic.Int64
}
