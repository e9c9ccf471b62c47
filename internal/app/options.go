package app

import (
	"log/slog"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
)

// Options are what a sidecar is told beside its config.
type Options struct {
	// Log receives the log lines. It is required.
	Log slog.Handler
	// Version is what the sidecar calls itself: to MCP servers, and in what it
	// exports.
	Version string
	// Source is where the config came from: what is new there takes over while the
	// sidecar runs. nil: nothing does.
	Source Source
	// Brought is used by a sidecar that is inside of a program.
	Brought Brought
}

// Brought is what a program has that a sidecar inside of it is to use in the place of what its
// config says.
type Brought struct {
	// Backends are those that are there already, by their names in the config. Their tools are
	// somebody else's: arguments that a schema does not name are sent, and one whose schema
	// cannot be used is not held to it.
	Backends map[string]backend.Backend
	// Store is where the records of calls are kept; nil is that of the config. The sidecar
	// closes it.
	Store dedupe.Store
}
