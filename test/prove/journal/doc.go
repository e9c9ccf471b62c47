// Package journal proves that a result whose store was down when it was due
// is never lost and its call never run again: with the store gone for a while,
// the sidecar killed too, at any moment, and with entries of the journal damaged.
//
// The proofs are tests with the tag prove. They run real sidecars on a real
// Redis, against an upstream that writes each execution to a synced ledger
// before it answers, and compare what callers were told, then and later and at
// another sidecar, with what the ledger holds.
package journal
