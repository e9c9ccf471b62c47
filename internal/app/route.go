package app

import (
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

// newRoute leads a tool to its backend, past the guards of both. What checks its
// arguments and reads its replies is compiled into it afterwards. target is the
// backend's own name for the tool.
func newRoute(h *host, t tool.Tool, target string) *catalog.Route {
	own := h.guards.of(t)
	return &catalog.Route{
		Tool: t, Backend: h.Backend, Target: target, Secrets: h.secrets,
		Heartbeat: h.config.Discovers(),
		Rate:      h.guards.rate, Retries: h.guards.retries, Slots: h.guards.slots, Connection: h.guards.connection,
		Breaker: own.breaker, Room: own.room, ToolSlots: own.slots,
	}
}
