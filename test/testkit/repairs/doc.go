// Package repairs proves a promise of the schema package: that a program which
// reads only the five fields of an error can repair a malformed call.
//
// That program is Program. It is given the rejected arguments and the violations, and has
// never seen the schema. Mutations breaks valid calls in the ways that
// models break them, and Run counts how many the program has repaired with a single
// further call.
//
//	valid call ──Mutations──▶ broken call ──Caller──▶ violations ──Program──▶ call ──Caller──▶ accepted?
//
// Where the schemas come from, and who judges the calls, is up to the caller of
// Run: a corpus in a file and the schema package itself, or the tools of a real
// server and a real sidecar.
package repairs
