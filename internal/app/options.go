package app

import "log/slog"

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
