// Package catalog is what can be called, by whom and within which limits.
//
//	Catalog ── Generation ── Snapshot ── Route
//	  swap        owner       immutable   one tool
//
// A Snapshot never changes: a call takes one when it arrives, and all that it
// is told, the tool, its schema, its guards, the profile, comes from that one.
// A Generation is what one config made: its backends, profiles and limits. Its
// tools come and go as backends discover them, which makes new snapshots. The
// Catalog swaps generations whole.
//
// A call leases its snapshot. A generation that was swapped out is retired when
// its last lease was given back: only then may its backends be closed.
package catalog
