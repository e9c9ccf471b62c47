package app

import (
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/limit"
)

// maxLooks is how many calls that find no room have their ids looked up at the
// same time: enough to keep a store busy, and too few to burden it.
const maxLooks = 64

// pipeline is what calls go through. Its bulkheads are the process's: they count
// the calls of every generation.
func pipeline(p *parts) *call.Executor {
	return call.New(call.Parts{
		Catalog:  p.catalog,
		Dedupe:   p.dedupe,
		Book:     p.book,
		Recorder: p.telemetry.Recorder,
		Limits: call.Limits{
			Slots:   limit.NewBulkhead(p.config.Limits.MaxInFlight),
			Waiting: limit.NewBulkhead(p.config.Limits.MaxWaiting),
			Looks:   limit.NewBulkhead(maxLooks),
			Bytes:   p.bytes,
		},
		Life:   p.life,
		Hold:   p.drain.Hold,
		Notify: p.notifier,
	})
}
