package app

import (
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

// newRoute leads a tool to its backend, past the protection of both. What checks its
// arguments and reads its replies is compiled into it afterwards. target is the
// backend's own name for the tool.
func newRoute(h *host, t tool.Tool, target string) *catalog.Route {
	own := h.protection.of(t)
	return &catalog.Route{
		Tool: t, Backend: h.Backend, Target: target, Secrets: h.secrets,
		Heartbeat: h.config.Discovers(),
		Rate:      h.protection.rate, Retries: h.protection.retries, Slots: h.protection.slots, Connection: h.protection.connection,
		Breaker: own.breaker, Capacity: own.capacity, ToolSlots: own.slots,
	}
}
