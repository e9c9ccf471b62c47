package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/config"
)

// mcpStandIn stands in for an mcp backend: a server of the official SDK, over HTTP,
// with the tools that the config and the cases name. It fails before the server
// hears of the request, but for what only a tool can say.
type mcpStandIn struct {
	ledger *ledger
	pace   pace
	// tools are its tools, by their own names.
	tools map[string]target
}

// newMCPStandIn stands in for the backend of a name; called are tools that the cases
// call.
func newMCPStandIn(backend string, t targets, called []target, l *ledger, p pace) *mcpStandIn {
	s := &mcpStandIn{l, p, make(map[string]target)}
	for _, name := range t.declared() {
		if one, ok := t.find(name); ok && one.backend == backend {
			s.tools[one.remote] = one
		}
	}
	for _, one := range called {
		if one.backend == backend {
			s.tools[one.remote] = one
		}
	}
	for _, remote := range named(t.cfg.Backends[backend]) {
		if _, known := s.tools[remote]; known {
			continue
		}
		if as, offered := t.cfg.Discovered(backend, remote, nil); offered {
			s.tools[remote] = target{name: as.Name, backend: backend, remote: remote, effect: as.Effect, policy: as.Policy, rules: as.Rules}
		}
	}
	return s
}

// handler answers for the backend until stop.
func (s *mcpStandIn) handler(stop <-chan struct{}) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "stand-in", Version: "1"}, nil)
	for _, remote := range slices.Sorted(maps.Keys(s.tools)) {
		schema := json.RawMessage(s.tools[remote].schema)
		if schema == nil {
			schema = json.RawMessage(`{"type":"object","additionalProperties":true}`)
		}
		server.AddTool(&mcp.Tool{Name: remote, Description: "stands in for " + remote, InputSchema: schema}, runTool)
	}
	speaks := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, whole := received(w, r, stop, s.pace)
		if !whole {
			return
		}
		one, args, calls := s.called(x.body)
		if !calls {
			speaks.ServeHTTP(w, r)
			return
		}
		f := s.ledger.request(one, one.sameness("", digest(args)))
		if f.status > 0 && f.body == nil {
			f.body = &answer{Text: http.StatusText(f.status)} // JSON would be an answer of the protocol
		}
		if f.kind == empty || f.kind == huge || !x.fail(one, f) {
			speaks.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), orderKey{}, order{one, f})))
		}
	})
}

type orderKey struct{}

// order is what the server is to do with a call.
type order struct {
	tool  target
	fault fault
}

// message is what has to be known of a message to the server.
type message struct {
	Method string `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

// called is the tool that a message calls, with these arguments.
func (s *mcpStandIn) called(body []byte) (one target, args json.RawMessage, ok bool) {
	var m message
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return one, nil, false
	}
	one, ok = s.tools[m.Params.Name]
	return one, m.Params.Arguments, ok
}

// runTool answers a call that reached the server.
func runTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	told, ok := ctx.Value(orderKey{}).(order)
	if !ok {
		return nil, fmt.Errorf("a call of %s that was not announced", req.Params.Name)
	}
	switch f := told.fault; f.kind {
	case toolError:
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: f.words()}}}, nil
	case empty:
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	case huge:
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: hugeText(told.tool)}}}, nil
	}
	return resultOf(*told.fault.body)
}

// resultOf is an answer as the result of a tool.
func resultOf(a answer) (*mcp.CallToolResult, error) {
	if a.Text != "" {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil
	}
	if len(a.JSON) == 0 {
		return nil, errors.New("the answer is empty")
	}
	made := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(a.JSON)}}}
	if a.JSON[0] == '{' {
		made.StructuredContent = json.RawMessage(a.JSON)
	}
	return made, nil
}

// redirectMCP lets the config find the stand-in instead of its server.
func redirectMCP(b *config.MCPBackend, url string) {
	b.Command, b.Env, b.Dir, b.RunAs, b.Headers = nil, config.Env{}, config.Path{}, config.Text{}, nil
	b.URL, b.AllowPrivate = config.NewText(url+"/mcp"), true
}
