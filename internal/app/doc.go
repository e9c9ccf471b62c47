// Package app makes running parts of a config. It is the one place where
// the packages of the sidecar meet; what it makes knows neither the config nor
// each other's kind.
//
//	Sidecar ── fronts ───── gRPC, the admin pages, their listeners
//	   │
//	   └────── parts ────── telemetry, dedupe (store and journal), drain
//	             │
//	             └── generation ── hosts ── a backend, the protection of its tools
//	                     │
//	                     └──────── routes: declared ones, and discovered ones
//
// A generation is all that one config makes: it is built whole or not at all,
// keeps its config, and ends its discovery and its backends when it is retired.
// The other parts are the process's, and outlive a generation.
//
// Files stand in that order: sidecar.go starts and stops, parts.go and fronts.go
// open, generation.go builds, and a file for each kind of backend, of protection and
// rule does the rest. Check builds a generation and starts nothing.
package app
