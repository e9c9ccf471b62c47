package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/call/result"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/tool"
)

// Each thing that is wrong has its place, and all are told in one run.
func TestBadRecoveryNamesThePlace(t *testing.T) {
	const text = `backends: {sh: {exec: {env: [PATH]}}, files: {mcp: {command: [ls]}, tools: {read: {effect: read_only, recovery: {rules: [{suggest: ["a\nb"]}]}}}}}
defaults: {recovery: {rules: [{pattern: "(", suggest: [Look.]}, {codes: [NOT_FOUND]}]}}
tools:
  a:
    backend: sh
    exec: {argv: [ls]}
    input_schema: {type: object, properties: {order_id: {type: string}, file: {type: object}}, additionalProperties: false}
    recovery: {target: [order_idd, file.path, ""], rules: [{suggest: ["Call {a b}.", "Wait."]}]}
  b: {backend: sh, exec: {argv: [ls]}, input_schema: {type: object, properties: {order_id: {type: string}}}, recovery: {target: [orderid]}}
  c: {backend: sh, exec: {argv: [ls]}, recovery: {target: [a, b, c, d, e]}, input_schema: {type: object, properties: {b: {}, c: {}, d: {}, e: {}}, additionalProperties: true}}
`
	var got []string
	for _, p := range checked(t, text) {
		if strings.Contains(p.Path, "recovery") {
			got = append(got, string(p.Rule)+" "+p.Error())
		}
	}
	want := []string{
		`value sidecall.yaml:1:133: backends.files.tools.read.recovery.rules[0].suggest[0]: must be one line`,
		"expression sidecall.yaml:2:41: defaults.recovery.rules[0].pattern: the expression \"(\" cannot be used: ",
		`value sidecall.yaml:2:65: defaults.recovery.rules[1].suggest: a suggestion is missing`,
		`argument sidecall.yaml:8:25: tools.a.recovery.target[0]: the input schema can never have "order_idd"; did you mean "order_id"?`,
		`value sidecall.yaml:8:47: tools.a.recovery.target[2]: expected a string that is not empty`,
		`value sidecall.yaml:8:71: tools.a.recovery.rules[0].suggest[0]: must name a tool between { and }`,
		`argument sidecall.yaml:9:130: tools.b.recovery.target[0]: `,
		`value sidecall.yaml:10:59: tools.c.recovery.target: at most 4 arguments can be a target`,
		`argument-undeclared sidecall.yaml:10:60: tools.c.recovery.target[0]: the input schema does not mention "a"`,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if starts(t, "defaults: {recovery: {rules: [{pattern: '('}]}}") {
		t.Error("it starts with a pattern that cannot be used")
	}
}

// Every route knows what its calls are about, unless nothing is told of them.
func TestRecoveryOfRoutes(t *testing.T) {
	g := generationOf(t, `
backends: {sh: {exec: {}}, files: {mcp: {command: [server]}, prefix: f_, tools: {read: {recovery: {target: [line], max_chars: 300}}, silent: {recovery: {context: off}}}}}
profiles: {quiet: {recovery: {context: off}}, loud: {}}
default_profile: loud
tools:
  plain: {backend: sh, exec: {argv: [x]}, sensitive_args: [key], input_schema: {properties: {key: {type: string}, order_id: {type: string}}, required: [key, order_id]}}
  named: {backend: sh, exec: {argv: [x]}, recovery: {target: [note]}}
  silent: {backend: sh, exec: {argv: [x]}, recovery: {context: off}}
`)
	g.discovery.complete = func() {}
	read := tool.Discovered{Name: "read", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"}}}`)}
	g.discovery.heard(g.hosts["files"], []tool.Discovered{read, {Name: "silent"}}, nil)
	brought, err := builtIn(result.Outputs{})
	if err != nil {
		t.Fatal(err)
	}
	g.serve(brought)
	snapshot := g.tools.Snapshot()
	args := map[string]any{"key": "hunter2", "order_id": "A-1", "note": "n", "path": "p", "line": json.Number("5"), "output_ref": "out_1"}
	for name, want := range map[string]string{"plain": "A-1", "named": "n", "f_read": "5", "read_output": "out_1"} {
		route, ok := snapshot.Lookup(name)
		if !ok || route.Recovery == nil || snapshot.Advice.Of(route) != route.Recovery {
			t.Errorf("%s: there %v, %v", name, ok, route)
			continue
		}
		if got := route.Recovery.Targeting.Of(args); got != want {
			t.Errorf("the target of %s is %q, want %q", name, got, want)
		}
		if most := route.Recovery.MaxChars; (most == 300) != (name == "f_read") || most != 300 && most != failures.DefaultMaxChars {
			t.Errorf("%s may have %d characters", name, most)
		}
	}
	for _, name := range []string{"silent", "f_silent"} {
		if route, ok := snapshot.Lookup(name); !ok || snapshot.Advice.Of(route) != nil {
			t.Errorf("%s is told", name)
		}
	}
	if snapshot.Advice.Of(nil) == nil {
		t.Error("a name that no tool has is not told of")
	}
	for name, want := range map[string]bool{"quiet": true, "loud": false} {
		if p, ok := snapshot.Profiles.Find(name); !ok || p.Untold != want {
			t.Errorf("%s: untold is %v", name, p.Untold)
		}
	}
	off := generationOf(t, "defaults: {recovery: {context: off}}")
	if off.tools.Snapshot().Advice.Of(nil) != nil {
		t.Error("a name that no tool has is told of where it is off")
	}
}

// What the rules of a tool say is said of its failures, under the name that it has
// here.
func TestRulesReachTheirTools(t *testing.T) {
	g := generationOf(t, `
defaults: {recovery: {rules: [{tools: [f_*], suggest: [For files.]}]}}
backends: {sh: {exec: {}}, files: {mcp: {command: [server]}, prefix: f_, tools: {read: {recovery: {rules: [{codes: [NOT_FOUND], suggest: [For read.], only: true}]}}}}}
tools: {t: {backend: sh, exec: {argv: [x]}, recovery: {rules: [{pattern: gone, suggest: [For t.], tried: changed}]}}}
`)
	for name, want := range map[string]string{"f_read": "For read.", "f_write": "For files.", "t": "For t."} {
		said := g.tools.Snapshot().Advice.Advisor.Explain(&failures.Failure{Operation: name, Code: tool.CodeNotFound, Error: "it is gone"}).Context
		if !strings.Contains(said, "Not tried yet:\n  - "+want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Of tools that are still to come nobody says that they are gone; once they are known
// the log does, with the place in the file.
func TestSuggestionsOfToolsThatAreGoneAreReported(t *testing.T) {
	log := new(bytes.Buffer)
	cfg := parsed(t, `
store: {memory: {}}
backends:
  files: {mcp: {command: [server]}, tools: {read: {effect: read_only, recovery: {target: [pth], rules: [{suggest: ["Call {list}, then {move}."]}]}}}}
  web: {mcp: {command: [server]}}
defaults: {recovery: {rules: [{suggest: ["Call {search}."]}]}}
`)
	found := &problems{config: cfg}
	g := draw(cfg, surroundings{logger: slog.New(slog.NewTextHandler(log, nil))}, found)
	t.Cleanup(func() {
		if err := g.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g.discovery.complete = func() {}
	g.discovery.expect(g.hosts)
	cfg.Release() // as after a start
	files := []tool.Discovered{{Name: "read", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{}}}`)}, {Name: "list"}}
	g.discovery.heard(g.hosts["files"], files, nil)
	if said := log.String(); strings.Contains(said, "never suggested") {
		t.Errorf("while a backend has not answered: %s", said)
	}
	g.discovery.heard(g.hosts["web"], nil, nil)
	said := log.String()
	for _, want := range []string{
		`test.yaml:6:42: defaults.recovery.rules[0].suggest[0]: there is no tool \"search\": this is never suggested`,
		`test.yaml:4:116: backends.files.tools.read.recovery.rules[0].suggest[0]: there is no tool \"move\": this is never suggested`,
		`at=backends.files.tools.read.recovery.target.0 problem="the input schema of read does not mention \"pth\"; did you mean \"path\"?: no model knows of it"`,
	} {
		if strings.Count(said, want) != 1 {
			t.Errorf("want once: %s\n%s", want, said)
		}
	}
	if strings.Contains(said, "list") {
		t.Errorf("a tool that is there: %s", said)
	}
	hear(g, g.hosts["files"], files, found)
	if got := of(slices.Concat(found.found, found.warnings), config.RuleArgumentUndeclared); len(got) != 1 {
		t.Errorf("check says %q", got)
	}
}
