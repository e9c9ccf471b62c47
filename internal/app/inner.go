package app

import (
	"context"
	"errors"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
)

// Inner is a sidecar inside of a program, which makes its calls itself: it listens nowhere.
type Inner struct {
	parts    parts
	executor *call.Executor
}

// StartInner starts a sidecar inside of this program; it takes the config over. Whoever starts
// one stops it.
func StartInner(ctx context.Context, cfg *config.Config, options Options) (*Inner, error) {
	life, endLife := context.WithCancel(context.Background())
	i := &Inner{parts: parts{config: cfg, drain: server.NewDrain(), life: life, endLife: endLife}}
	if err := i.parts.open(ctx, options); err != nil {
		return nil, errors.Join(err, i.parts.giveBack(options), i.Stop(ctx))
	}
	i.executor = pipeline(&i.parts)
	cfg.Release()
	first := i.parts.generation.Load()
	first.discover(func() {})
	first.takeOver(nil)
	return i, nil
}

// giveBack closes a store that was brought to parts that could not be opened as far as that.
func (p *parts) giveBack(options Options) error {
	if store := options.Brought.Store; store != nil && p.dedupe == nil {
		return store.Close()
	}
	return nil
}

// Named is what the sidecar calls a tool of a backend.
func (i *Inner) Named(backend, name string) string {
	if name == output.ToolName {
		return name
	}
	as, _ := i.parts.config.Discovered(backend, name, nil)
	return as.Name
}

// Effect is that of a tool; of one that there is not the most dangerous one.
func (i *Inner) Effect(name string) tool.Effect {
	if route, ok := i.parts.catalog.Snapshot().Lookup(name); ok {
		return route.Tool.Effect
	}
	return tool.NonIdempotent
}

// Execute makes a call for a tenant.
func (i *Inner) Execute(ctx context.Context, tenant string, req *sidecallv1.ExecuteToolStreamRequest) *sidecallv1.ExecuteToolResponse {
	defer i.parts.drain.Hold()()
	lease := i.parts.catalog.Lease()
	defer lease.Release()
	request := call.NewRequest(tenant, req.GetCall())
	request.Round = call.RoundOf(req.GetMcp())
	return i.executor.Execute(ctx, lease, request)
}

// Stop lets the calls in flight end, at most until ctx ends, and then what they stood on.
func (i *Inner) Stop(ctx context.Context) error {
	i.parts.drain.Start(ctx)
	i.parts.endLife()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if last := i.parts.generation.Load(); last != nil {
		last.silence()
	}
	return i.parts.close(ctx)
}
