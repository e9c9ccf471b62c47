package app

import (
	"log/slog"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/config"
)

// kind is how backends of one kind come out of the config.
type kind struct {
	// entrusted says which values a backend of it is given that may be secrets.
	entrusted func(config.Backend) entrusted
	// build makes a backend. Nothing is connected or started yet.
	build func(blueprint) (built, error)
	// again is what was built, for the tools of another config that says the same of
	// the backend. nil: it is built anew each time.
	again func(kept built) built
	// files are those that build reads beside the config; nil is none.
	files func(config.Backend) []string
}

// blueprint is what a backend is built from.
type blueprint struct {
	name   string
	config config.Backend
	// dir is where its commands run that have no directory of their own.
	dir string
	// tools are all that the file declares, those of other backends too.
	tools map[string]config.Tool
	// maxOutput bounds what is read of one output, in bytes.
	maxOutput int
	// maxRequest bounds what is read of one message of a gRPC client, in bytes.
	maxRequest int64
	// late counts the results of workers that come too late.
	late *atomic.Int64
	// logger takes the words of the backend, and keeps its secrets to itself.
	logger  *slog.Logger
	version string
}

// built is a backend, and what makes a declared tool known to it before it is
// routed.
type built struct {
	backend.Backend

	register func(name string, t config.Tool) error
}

// nothingToRegister is for a backend that knows its tools otherwise.
func nothingToRegister(string, config.Tool) error { return nil }

// entrusted are values that a backend is given, by the name of the header or
// variable.
type entrusted struct {
	values []map[string]config.Secret
	// texts are what else it is given that may refer to secrets.
	texts []config.Text
	// passed are the names of the sidecar's own variables that it gets.
	passed []string
}
