// Package crash proves that no call happens twice and none is lost whatever
// becomes of the sidecar's process: killed, stopped past its lease, panicking,
// out of disk, or with a damaged file, at every step of a call.
//
// The proofs are tests with the tag prove. They run real sidecars against an
// upstream that writes each execution to a synced ledger before it answers,
// and compare what the sidecars say with what the ledger holds.
package crash
