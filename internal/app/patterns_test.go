package app

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// A server that nobody here wrote must not take the memory of the sidecar by
// what its schemas say: neither with one pattern nor with many.
func TestPatternsOfDiscoveredToolsAreBounded(t *testing.T) {
	g := generationOf(t, "backends:\n  files: {mcp: {command: [server]}}\n")
	found := []tool.Discovered{
		{Name: "bomb", InputSchema: []byte(`{"type":"object","properties":{"a":{"pattern":"((((((a){20000}){20000}){20000}){20000}){20000}){20000}"}}}`)},
		{Name: "plain", InputSchema: []byte(`{"type":"object","properties":{"a":{"pattern":"^[a-z]+$"}}}`)},
		{Name: "out", OutputSchema: []byte(`{"type":"object","patternProperties":{"((((((a){20000}){20000}){20000}){20000}){20000}){20000}":{}}}`)},
	}
	for i := range 100 {
		found = append(found, tool.Discovered{
			Name:        fmt.Sprintf("large_%d", i),
			InputSchema: fmt.Appendf(nil, `{"type":"object","properties":{"a":{"pattern":"^[a-z]{%d}$"}}}`, 20_000-i),
		})
	}
	routes, err := discoveredRoutes(g.hosts["files"], found, g.config, g.discovery.pins)
	if err == nil || !strings.Contains(err.Error(), "bomb") || !strings.Contains(err.Error(), "out") || !strings.Contains(err.Error(), "together") {
		t.Errorf("%.300v", err)
	}
	instructions, plain := 0, false
	for _, route := range routes {
		instructions += route.Schema.Instructions()
		plain = plain || route.Tool.Name == "plain"
	}
	if !plain || instructions > maxBackendPatterns || len(routes) < 20 {
		t.Errorf("%d tools with %d instructions, the plain one among them: %v", len(routes), instructions, plain)
	}
}

// A list of 2.4 MB of tools took 35 s: the schemas of each tool were compiled, in time
// with the square of their properties, before anybody called one of them.
func TestAListOfToolsIsReadWithoutCompilingIt(t *testing.T) {
	g := generationOf(t, "backends:\n  files: {mcp: {command: [server]}}\n")
	for _, properties := range []int{10, 4000} {
		var names []string
		for n := range properties {
			names = append(names, fmt.Sprintf(`"%x":{}`, n))
		}
		schema := []byte(`{"type":"object","properties":{` + strings.Join(names, ",") + `}}`)
		var found []tool.Discovered
		for size := 0; size < 1<<20; size += 2 * len(schema) {
			found = append(found, tool.Discovered{Name: fmt.Sprintf("t%d", len(found)), InputSchema: schema, OutputSchema: schema})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		routes, err := discoveredRoutes(g.hosts["files"], found, g.config, g.discovery.pins)
		runtime.ReadMemStats(&after)
		if err != nil || len(routes) != len(found) {
			t.Fatalf("%d routes of %d tools: %v", len(routes), len(found), err)
		}
		if objects := after.Mallocs - before.Mallocs; objects > 3<<20 {
			t.Errorf("%d properties each: a list of 1 MiB took %d allocations", properties, objects)
		}
	}
}
