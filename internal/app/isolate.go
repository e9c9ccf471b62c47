package app

import (
	"log/slog"

	"github.com/sidecall/sidecall/internal/backend/process"
)

// Isolate parts this process from the programs that it will start: what it has
// (environment, memory, open files) is not theirs to read, and what they start
// ends with them. It is for a process that is a sidecar and nothing else, before
// it reads a secret. What cannot be done here is logged. release ends it, after
// the sidecar has stopped.
func Isolate(log slog.Handler) (release func()) {
	logger := slog.New(log)
	if err := process.Conceal(); err != nil {
		logger.Warn("isolation", "warning", "exec tools and MCP servers of the same user can read what this process has", "error", err)
	}
	way, release, err := process.KeepHouse()
	if err != nil {
		logger.Warn("isolation", "warning", "what leaves the process group of its command outlives it", "error", err)
		return func() {}
	}
	logger.Debug("isolation", "stragglers_ended_by", way)
	return release
}
