package app

import (
	"github.com/sidecall/sidecall/internal/backend/builtin"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
)

// builtIn is the route of read_output. It has no protection: what it reads is the
// sidecar's own.
func builtIn(outputs result.Outputs) (*catalog.Route, error) {
	made := output.Tool()
	compiled, err := schema.Compile(made.Name, made.InputSchema, schema.Options{})
	if err != nil {
		return nil, err
	}
	return &catalog.Route{Tool: made, Schema: compiled, Backend: builtin.NewReadOutput(outputs), Target: made.Name}, nil
}
