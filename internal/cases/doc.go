// Package cases runs a team's own failure tests against its config: a call, the
// fault that its backend has meanwhile, and what the model must see of it.
//
//	CASES.yaml ─ read ─▶ checked against the config ─▶ one sidecar per case ─▶ judged
//	                                                        │
//	                                       stand-ins for every backend: plan, ledger
//
// The sidecar is the real one, over its own gRPC, with the config's tools,
// policies and schemas. What is not real is around it: a fresh store in memory, and
// for each backend a local server that fails as the case says and counts what it
// was asked and what it did. Nothing of the config is reached, and no secret of it
// is read.
//
// Files stand in that order: format.go and fault.go say what may be written, target.go
// and check.go what cannot be, suite.go reads and runs a file, run.go plays a case on
// the stage of stage.go: with the environment of environment.go, at the pace of
// pace.go, watched by clock.go. ledger.go counts for the stand-ins, standin.go, http.go,
// mcp.go and command.go; judge.go compares. docs/cases.md is for who writes cases.
package cases
