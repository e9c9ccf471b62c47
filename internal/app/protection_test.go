package app

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/sidecall/sidecall/internal/limit"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

const guarded = `
backends:
  files:
    mcp: {command: [server]}
    tools:
      append: {max_in_flight: 1}
`

// discover is what a backend's list makes, by tool.
func discover(t *testing.T, g *generation, found ...tool.Discovered) map[string]*catalog.Route {
	t.Helper()
	routes, err := discoveredRoutes(g.hosts["files"], found, g.config, g.discovery.pins)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*catalog.Route)
	for _, route := range routes {
		byName[route.Tool.Name] = route
	}
	return byName
}

// What a lost connection has made fail is gone with it: its breakers are closed when
// there is another one. A changed tool list closes nothing.
func TestAReconnectClosesTheBreakers(t *testing.T) {
	for _, text := range []string{guarded, "backends: {files: {mcp: {command: [server]}}}"} {
		g := generationOf(t, text)
		h := g.hosts["files"]
		g.discovery.complete = func() {}
		list := []tool.Discovered{{Name: "append"}}
		g.discovery.heard(h, list, nil)
		route, ok := g.tools.Snapshot().Lookup("append")
		if !ok {
			t.Fatal("the tool is not there")
		}
		for range 10 {
			if done, err := route.Breaker.Allow(); err == nil {
				done(breaker.Failure)
			}
		}
		g.discovery.heard(h, append(list, tool.Discovered{Name: "read"}), nil)
		if got := route.Breaker.State(); got != breaker.Open {
			t.Errorf("after another list it is %v", got)
		}
		g.discovery.heard(h, nil, errors.New("it exits"))
		if got := route.Breaker.State(); got != breaker.Open {
			t.Errorf("while the server is down it is %v", got)
		}
		g.discovery.heard(h, list, nil)
		if got := route.Breaker.State(); got != breaker.Closed {
			t.Errorf("after a reconnect it is %v", got)
		}
	}
}

// A server that sends its list again, with another word in it, does not get a
// second call through where one is allowed.
func TestGuardsOutliveAToolList(t *testing.T) {
	g := generationOf(t, guarded)
	before := discover(t, g, tool.Discovered{Name: "append"})["append"]
	var place limit.Place
	if !before.ToolSlots.Acquire(&place) {
		t.Fatal("no place for the first call")
	}
	discover(t, g) // for a moment the tool is not there
	after := discover(t, g, tool.Discovered{Name: "append", Description: "appends"})["append"]
	if after.ToolSlots.Acquire(&limit.Place{}) {
		t.Error("two calls at once, one is allowed")
	}
	if after.Capacity != before.Capacity || after.Breaker != before.Breaker {
		t.Error("the list made the sidecar forget how the tool does")
	}
	place.Leave()
	if !after.ToolSlots.Acquire(&limit.Place{}) {
		t.Error("the first call has ended, and there is no place")
	}
}

func TestGuardsOfToolsThatAreGoneAreForgotten(t *testing.T) {
	g := generationOf(t, guarded)
	for n := range 100 {
		discover(t, g, tool.Discovered{Name: "append"}, tool.Discovered{Name: fmt.Sprintf("tool_%d", n)})
	}
	guards, breakers := len(g.hosts["files"].protection.tools), make(map[string]bool)
	g.breakers(func(name string, _ breaker.State) { breakers[name] = true })
	if guards != 2 || !maps.Equal(breakers, map[string]bool{"files": true, "files/append": true, "files/tool_99": true}) {
		t.Errorf("%d guards and the breakers %v of two tools", guards, breakers)
	}
}

// The retry budget of a backend is what its config says, and the usual one where that
// says nothing.
func TestRetryBudgetOfABackend(t *testing.T) {
	for said, want := range map[string]int{"": 30, ", retry_budget: {per_second: 0.5}": 5, ", retry_budget: {share: 0, per_second: 0}": 0} {
		g := generationOf(t, "backends: {files: {mcp: {command: [server]}"+said+"}}")
		retries := g.hosts["files"].protection.retries
		got := 0
		for got <= want && retries.Retry() {
			got++
		}
		if got != want {
			t.Errorf("%q: %d retries without a call, want %d", said, got, want)
		}
	}
}

// Another bound of a tool makes nothing forgotten of how it fails.
func TestAnotherBoundKeepsTheBreakerOfATool(t *testing.T) {
	g := generationOf(t, guarded).hosts["files"].protection
	narrow := tool.Tool{Name: "append", Policy: tool.Policy{MaxInFlight: 1}}
	wide := tool.Tool{Name: "append", Policy: tool.Policy{MaxInFlight: 2}}
	before := g.of(narrow)
	after := g.of(wide)
	if after.breaker != before.breaker || after.slots == before.slots {
		t.Error("the breaker is another one, or the places are not")
	}
	g.forget(func(of ward) bool { return of.places == 2 })
	if g.of(wide).breaker != before.breaker {
		t.Error("the breaker went with the bound before")
	}
	g.forget(func(ward) bool { return false })
	if g.of(wide).breaker == before.breaker {
		t.Error("the breaker of a tool that was there no more is kept")
	}
}
