package main

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/server"
)

const guarded = `
backends:
  files:
    mcp: {command: [server]}
    breaker: {per_tool: true}
    tools:
      append: {max_in_flight: 1}
`

// discover is what a backend's list makes, by tool.
func discover(t *testing.T, b *builder, found ...backend.Discovered) map[string]*server.Route {
	t.Helper()
	routes, err := b.discoveredRoutes(b.hosts["files"], found)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*server.Route)
	for _, route := range routes {
		byName[route.Tool.Name] = route
	}
	return byName
}

// A server that sends its list again, with another word in it, does not get a
// second call through where one is allowed.
func TestGuardsOutliveAToolList(t *testing.T) {
	b, _ := built(t, guarded)
	before := discover(t, b, backend.Discovered{Name: "append"})["append"]
	leave, ok := before.ToolSlots.Acquire()
	if !ok {
		t.Fatal("no place for the first call")
	}
	discover(t, b) // for a moment the tool is not there
	after := discover(t, b, backend.Discovered{Name: "append", Description: "appends"})["append"]
	if _, ok := after.ToolSlots.Acquire(); ok {
		t.Error("two calls at once, one is allowed")
	}
	if after.Room != before.Room || after.Breaker != before.Breaker {
		t.Error("the list made the sidecar forget how the tool does")
	}
	leave()
	if _, ok := after.ToolSlots.Acquire(); !ok {
		t.Error("the first call has ended, and there is no place")
	}
}

func TestGuardsOfToolsThatAreGoneAreForgotten(t *testing.T) {
	b, _ := built(t, guarded)
	for n := range 100 {
		discover(t, b, backend.Discovered{Name: "append"}, backend.Discovered{Name: fmt.Sprintf("tool_%d", n)})
	}
	if len(b.guards["files"]) != 2 || len(b.breakers) != 2 {
		t.Errorf("%d guards and %d breakers of two tools", len(b.guards["files"]), len(b.breakers))
	}
}
