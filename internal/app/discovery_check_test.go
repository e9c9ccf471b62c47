package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// finder is a backend that says at once which tools it has; one that is silent
// says nothing, and ends the time when the others have spoken.
type finder struct {
	backend.Backend

	tools  []tool.Discovered
	err    error
	wrote  []string // to its standard error, before
	silent func()
	spoken *sync.WaitGroup
	left   chan struct{}
	log    *slog.Logger
}

func (s *finder) Run(ctx context.Context, update func([]tool.Discovered, error)) {
	defer close(s.left)
	for _, line := range s.wrote {
		s.log.Info("the MCP server wrote to its standard error", "line", line)
	}
	if s.silent != nil {
		s.spoken.Wait()
		s.silent()
	} else {
		update(s.tools, s.err)
		update(nil, errors.New("only the first counts"))
		s.spoken.Done()
	}
	<-ctx.Done()
}

// What the file says of tools that it does not have itself is held against those
// that there are.
func TestWhatDiscoveryFinds(t *testing.T) {
	cfg, known := config.ExamineText("sidecall.yaml", []byte(`backends:
  files:
    mcp: {command: [ls]}
    prefix: f_
    include: ["*", none_*]
    exclude: [secret, gone]
    effects: {read: read_only, red: read_only}
    tools: {move: {effect: idempotent, errors: [{when: "true", code: NOT_FOUND, allowed_alternatives: [f_read, f_secret]}]}, mv: {sequential: true}}
  down: {mcp: {command: [ls]}}
  slow: {mcp: {command: [ls]}}
  trusted: {mcp: {command: [ls], trust_annotations: true}}
`), nil)
	if len(known) > 0 {
		t.Fatal(known)
	}
	found := &problems{config: cfg}
	heard := newStderrLines()
	g := draw(cfg, surroundings{logger: slog.New(heard)}, found)
	defer func() { _ = g.close(t.Context()) }()
	ctx, timeIsUp := context.WithCancel(t.Context())
	defer timeIsUp()
	servers := map[string]*finder{
		"files": {tools: []tool.Discovered{{Name: "read"}, {Name: "write"}, {Name: "move"}, {Name: "append"}, {Name: "secret"}, {Name: "broken", InputSchema: []byte(`{"type":"string"}`)}}},
		"down":  {err: errors.New("the server process ended"), wrote: []string{"Traceback", "throw err;", "", "Error: no module \x1b[1mledger", "    at load", "{", "code: 1", "}", "Node.js"}},
		"slow":  {silent: timeIsUp, wrote: []string{"Listening on port 3000"}},
		"trusted": {tools: []tool.Discovered{
			{Name: "list", Claimed: true, Effect: tool.ReadOnly}, {Name: "pay"}, {Name: "f_read", Claimed: true, Effect: tool.ReadOnly},
		}},
	}
	var spoken sync.WaitGroup
	spoken.Add(len(servers) - 1)
	for name, s := range servers {
		s.left, s.spoken, s.Backend = make(chan struct{}), &spoken, g.hosts[name].Backend
		s.log = g.hosts[name].logger.With("backend", name)
		g.hosts[name].Backend = s
	}
	if ask(ctx, g, heard, found) {
		t.Error("all have answered, though two have not")
	}
	for name, s := range servers {
		select {
		case <-s.left:
		default:
			t.Errorf("%s is still being discovered", name)
		}
	}
	for rule, want := range map[config.Rule][]string{
		config.RuleEffect:    {"3 tools nobody says what repeating them does, so they count as non_idempotent: f_append, f_broken, f_write;", "1 tool nobody says what repeating it does, so it counts as non_idempotent: pay;"},
		config.RuleUnmatched: {`"none_*"`, `"gone"`, `"red"`, `"mv"`},
		config.RuleDiscovery: {
			"down: it cannot be asked for its tools: the server process ended; it wrote: throw err; | Error: no module ledger | { | code: 1 | } | Node.js",
			"slow: it cannot be asked for its tools: it did not answer in time: --timeout gives it more; it wrote: Listening on port 3000",
			`files: it has a tool that cannot be used: `, "trusted: ",
		},
	} {
		var said []string
		for _, p := range found.warnings {
			if p.Rule == rule {
				said = append(said, p.Error())
				if p.Line == 0 {
					t.Errorf("without a place: %v", p)
				}
			}
		}
		for _, one := range want {
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, one) }) {
				t.Errorf("%s: %q is not said in %q", rule, one, said)
			}
		}
		if len(said) != len(want) {
			t.Errorf("%s: %d said, want %d: %q", rule, len(said), len(want), said)
		}
	}
	among := cfg.WarningsAmong(g.tools.Snapshot().Names())
	if len(among) != 1 || among[0].Rule != config.RuleUnknownName || !strings.Contains(among[0].Message, `"f_secret"`) {
		t.Errorf("of the names only f_secret is no tool: %v", among)
	}
}
