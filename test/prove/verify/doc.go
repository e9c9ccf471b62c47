// Package verify proves what the automatic verification of unknown calls
// promises: a call whose answer was lost, whose request was swallowed, or whose
// effect comes late, is brought to its end by its duplicates, and has happened
// exactly once then.
package verify
